"""Check of a graph of prims against their rules for dtypes, shapes and aliasing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fullgraph.compiler.lowering.prims.prim_table import Prim, find_prim
from fullgraph.compiler.private import example_of, tensors_in


def broken_rules(module: torch.fx.GraphModule) -> tuple[str, ...]:
    """Return a sentence for each prim of a graph whose example breaks one of its rules.

    A backend may rely on the rules if there are none. Nodes need examples in `meta["val"]`. Whether
    a result shares memory is not seen on fake tensors that were traced apart, and not checked.
    """
    found: list[str] = []
    for node in module.graph.nodes:
        prim = find_prim(node.target)
        results = tensors_in(example_of(node))
        if prim is None or not results:
            continue
        operands = [
            tensor for one in node.all_input_nodes for tensor in tensors_in(example_of(one))
        ]
        found += [f"{node.name}: {rule}" for rule in _broken_by(prim, operands, results[0])]
    return tuple(found)


def _broken_by(prim: Prim, operands: Sequence[Tensor], result: Tensor) -> Iterator[str]:
    """Yield what a call breaks. Operands after the first of an ATen operator may be indices."""
    same = operands if prim.name.startswith("prims.") else operands[:1]
    expected = {
        "same": {one.dtype for one in same},
        "bool": {torch.bool},
        "int64": {torch.int64},
        "real": {_real_dtype(one.dtype) for one in same},
        "given": {result.dtype},
    }[prim.dtype]
    if operands and expected != {result.dtype}:
        dtypes = ", ".join(sorted(map(str, expected)))
        yield f"{prim.name} returns {result.dtype}, and its rule says {dtypes}"
    if prim.shape == "same" and any(one.ndim and one.shape != result.shape for one in same):
        shapes = ", ".join(str(list(one.shape)) for one in same)
        yield f"{prim.name} returns {list(result.shape)} for operands {shapes}"
    if prim.shape == "reduced" and operands and result.ndim > operands[0].ndim:
        yield f"{prim.name} returns more dims than it takes"


def _real_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the real part of a complex dtype, or the dtype itself."""
    return dtype.to_real() if dtype.is_complex else dtype
