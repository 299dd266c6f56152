"""Second tier: the closed set of prims, with rules for dtypes, shapes and aliasing to check.

A prim converts no dtype and broadcasts nothing: the graph does both in prims of their own. Most are
operators of `torch._prims`. What these cannot say, such as `gather`, is the ATen operator.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fullgraph.compiler.lowering.prims.canonical import (
    BESSEL_FUNCTIONS,
    POLYNOMIALS,
)
from fullgraph.compiler.private import example_of, tensors_in

DtypeRule = Literal["same", "bool", "real", "int64", "given"]
"""Dtype of the result.

That of all operands ("same"), bool, int64, that of the real part of a complex operand ("real"), or
as an argument says ("given").
"""
ShapeRule = Literal["same", "reduced", "given"]
"""Shape of the result: that of all operands, without the reduced dims, or as the arguments say."""
Aliasing = Literal["new", "view", "inplace"]
"""Whether the result has memory of its own, or that of the first operand, or is that operand."""


@dataclass(frozen=True)
class Prim:
    """One prim: its name and its rules."""

    name: str
    """Name in graphs: "prims.add.default", or "aten.gather.default"."""
    dtype: DtypeRule
    shape: ShapeRule
    aliasing: Aliasing


_PRIMS: Mapping[tuple[DtypeRule, ShapeRule, Aliasing], str] = {
    ("same", "same", "new"): """
        prims: acos acosh asin asinh atan atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0
        bessel_j1 bitwise_not cbrt ceil conj_physical cos cosh digamma erf erf_inv erfc erfcx exp
        exp2 expm1 fill floor lgamma log log10 log1p log2 ndtri neg reciprocal round rsqrt sign sin
        sinh spherical_bessel_j0 sqrt tan tanh trunc
        add atan2 bitwise_and bitwise_or bitwise_xor div fma fmax fmin fmod gcd hypot igamma
        igammac maximum minimum mul nextafter pow remainder shift_left shift_right_arithmetic sub
        zeta clone copy_strided device_put rev
        aten: cumsum cumprod logcumsumexp flip index_put scatter.src scatter.value slice_scatter
        select_scatter diagonal_scatter as_strided_scatter polygamma copysign.Tensor
        lift_fresh_copy
    """
    + " ".join(f"special_{name}" for name in (*BESSEL_FUNCTIONS, *POLYNOMIALS)),
    ("bool", "same", "new"): "prims: eq ge gt isfinite le lt ne aten: signbit",
    ("real", "same", "new"): "prims: abs aten: angle",
    ("real", "same", "view"): "prims: imag real",
    ("same", "reduced", "new"): "prims: amax amin prod sum var xor_sum",
    ("int64", "reduced", "new"): "aten: argmax argmin",
    ("given", "same", "new"): """
        prims: convert_element_type full_like where frexp aten: cummax cummin complex
    """,
    ("same", "given", "new"): """
        prims: cat collapse reshape as_strided_scatter
        aten: index.Tensor gather constant_pad_nd cat
    """,
    ("given", "given", "new"): """
        prims: empty empty_permuted empty_strided full iota scalar_tensor
    """,
    ("same", "given", "view"): """
        prims: as_strided broadcast_in_dim collapse_view conj split_dim squeeze transpose view_of
        aten: slice.Tensor unfold diagonal alias as_strided _neg_view
        lift_fresh
    """,
    ("given", "given", "view"): "prims: view_of_dtype aten: view_as_real view_as_complex",
    ("same", "same", "inplace"): "prims: copy_to aten: copy_",
}


@functools.cache
def prims() -> Mapping[str, Prim]:
    """Return the prims by name."""
    found: dict[str, Prim] = {}
    for rules, text in _PRIMS.items():
        namespace = ""
        for word in text.split():
            if word.endswith(":"):
                namespace = word[:-1]
                continue
            name = f"{namespace}.{word if '.' in word else f'{word}.default'}"
            found[name] = Prim(name, *rules)
    return found


def find_prim(target: object) -> Prim | None:
    """Return the prim that a node calls; None if its target is not one."""
    return prims().get(str(target)) if isinstance(target, torch._ops.OpOverload) else None


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
        "real": {one.dtype.to_real() for one in same},
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
