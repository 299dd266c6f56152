"""Decomposition tables of torch, its prims, and tracing a graph once more with a table."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch._decomp
import torch._prims
import torch._refs
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_leaves

from fullgraph.compiler.private.backend_call import hint_of_symbol
from fullgraph.compiler.private.fake_operators import example_of

Decomposition = Callable[..., Any]
Operator = torch._ops.OpOverload


@functools.cache
def torch_decompositions() -> Mapping[Operator, Decomposition]:
    """Return torch's decompositions by operator: those of `torch._decomp` and `torch._refs`."""
    table = torch._decomp.global_decomposition_table["post_autograd"]
    return {
        operator: function
        for operator, function in table.items()
        if isinstance(operator, Operator) and operator.namespace in ("aten", "prims")
    }


@functools.cache
def torch_prims() -> Mapping[str, Operator]:
    """Return the operators of `torch.ops.prims` that `torch._prims` defines, by name: "add"."""
    found = ((name, getattr(torch.ops.prims, name, None)) for name in dir(torch.ops.prims))
    overloads = ((name, getattr(packet, "default", None)) for name, packet in found)
    return {
        name: operator
        for name, operator in overloads
        if isinstance(operator, Operator) and hasattr(operator, "prim_meta_impl")
    }


def prim_as_aten(prim: Any) -> Decomposition:
    """Return the function that computes a prim by ATen operators."""
    implementation: Decomposition = prim.impl_aten
    return implementation


def prim_aliasing(prim: Any) -> str:
    """Return whether each result of a prim is "new", a "view", or the operand "inplace"."""
    found = prim.return_type
    kinds = found if isinstance(found, tuple) else (found,)
    return " ".join(dict.fromkeys(str(kind.name).lower() for kind in kinds))


def prim_result_dtype(prim: Any) -> str | None:
    """Return the dtype rule of an elementwise prim: "default", "always_bool", "complex_to_float".

    None for a prim of another kind.
    """
    keywords = getattr(prim.prim_meta_impl, "keywords", {})
    rule = keywords.get("type_promotion")
    return None if rule is None else str(rule.name).lower()


@contextlib.contextmanager
def without_fake_tensors() -> Iterator[None]:
    """Compute with real tensors inside a `with` block, although a trace runs."""
    with unset_fake_temporarily(), disable_proxy_modes_tracing():
        yield


def retrace(
    module: torch.fx.GraphModule, table: Mapping[Operator, Decomposition]
) -> torch.fx.GraphModule:
    """Return a graph traced from `module` on fake tensors, with the decompositions of `table`.

    Its inputs are the examples of the placeholders. The new graph has the placeholders' names and
    the metadata of placeholders, outputs and operators, with new examples in `meta["val"]`.
    """
    placeholders = module.graph.find_nodes(op="placeholder")
    values = [example_of(node) for node in placeholders]
    mode = detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True)
    fake = [_to_fake(value, mode) for value in values]

    def run(*args: object) -> object:
        """Run the graph node by node, so that new nodes get the metadata of old ones."""
        return torch.fx.Interpreter(module).run(*args, enable_io_processing=False)

    with mode, preserve_node_meta(), torch.no_grad():
        traced = make_fx(run, decomposition_table=dict(table), _allow_non_fake_inputs=True)(*fake)
    for old, new in zip(placeholders, traced.graph.find_nodes(op="placeholder"), strict=True):
        new.target = old.target
        new._rename(old.name)
        new.meta = {**old.meta, "val": new.meta.get("val")}
    traced.graph.output_node().meta.update(module.graph.output_node().meta)
    traced.recompile()
    return traced


def expected_dim_orders(
    operator: Operator, args: Sequence[object], kwargs: Mapping[str, object], results: object
) -> list[list[int] | None]:
    """Return, for each tensor among a decomposition's results, the order of dims in memory.

    It is that of the operator's own result on fake tensors, the dim with the largest stride first;
    None if the decomposition's result has these strides already. Strides of dims of size 1 do not
    matter. Results of real tensors, and of operators that do not run on fake ones, stay.
    """
    tensors = [one for one in tree_leaves(results) if isinstance(one, torch.Tensor)]
    operands = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    unknown: list[list[int] | None] = [None] * len(tensors)
    if not all(isinstance(one, FakeTensor) for one in operands):
        return unknown
    with disable_proxy_modes_tracing():
        try:
            expected = operator(*args, **kwargs)
        except Exception:  # what fake tensors say of an operator is theirs
            return unknown
        others = [one for one in tree_leaves(expected) if isinstance(one, torch.Tensor)]
        if len(others) != len(tensors):
            return unknown
        pairs = zip(tensors, others, strict=True)
        return [dim_order(tensor, other.stride()) for tensor, other in pairs]


def dim_order(tensor: torch.Tensor, strides: Sequence[int]) -> list[int] | None:
    """Return the dims from the largest of `strides` to the smallest, as a copy must have them.

    None if the tensor has these strides, but for dims of size 1, or if they have no order. Symbolic
    strides are compared by their hints, which adds no guard.
    """
    sizes, own, wanted = (
        [_hint(one) for one in numbers] for numbers in (tensor.shape, tensor.stride(), strides)
    )
    if len(own) != len(wanted) or 0 in wanted or None in wanted:
        return None
    triples = zip(sizes, own, wanted, strict=True)
    if all(one == other or size == 1 for size, one, other in triples):
        return None
    return sorted(range(tensor.dim()), key=wanted.__getitem__, reverse=True)


def _hint(number: object) -> Any:
    return hint_of_symbol(number) if isinstance(number, torch.SymInt) else number


def _to_fake(value: object, mode: FakeTensorMode) -> object:
    """Return the fake tensor of `mode` for a tensor; any other value as it is."""
    return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value
