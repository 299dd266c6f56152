"""Decomposition tables of torch, its prims, and tracing a graph once more with a table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch._decomp
import torch._prims
import torch._refs
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

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


def _to_fake(value: object, mode: FakeTensorMode) -> object:
    """Return the fake tensor of `mode` for a tensor; any other value as it is."""
    return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value
