"""First tier: the canonical ATen operators, which a backend for ATen graphs must implement.

Names are ATen's, such as "add.Tensor", with its own rules for dtypes and broadcasting. Of several
overloads for one function, the most general is canonical: `x + 2` is `add.Tensor` with a Python
number in the place of a tensor. The operators that take no such number also have `Scalar`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Literal, TypeVar

import torch

K = TypeVar("K")
CanonicalKind = Literal[
    "pointwise", "reduction", "scan", "view", "index", "scatter", "creation", "copy",
    "assertion", "symbolic",
]  # fmt: skip
"""How a backend treats an operator.

- "pointwise": broadcasts its operands; each element of the result is a function of their elements
- "reduction": `dim` is a list or None, except for argmax, argmin and prod
- "scan": along one dim, such as cumsum
- "view": the result shares memory with the first operand and is an index expression of it
- "index": reads elements at computed positions, and writes each element of the result once
- "scatter": a copy of the first operand, in which other values are written to some positions
- "creation": no tensor operand
- "copy": other memory, dtype, device or layout; `copy_` is only the update of a graph input, and
  `lift_fresh_copy` the clone of a constant
- "assertion": raises or does nothing
- "symbolic": computes sizes, not tensors
"""

POLYNOMIALS = (
    *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he"),
    *("laguerre_polynomial_l", "legendre_polynomial_p"),
)
"""Orthogonal polynomials, of a number and a degree; ATen's names begin with `special_`."""
BESSEL_FUNCTIONS = (
    *("airy_ai", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1"),
    *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"),
)
"""Bessel functions that torch has no prims for; ATen's names begin with `special_`."""

_CANONICAL: Mapping[CanonicalKind, str] = {
    "pointwise": """
        abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh digamma erf erfc erfinv exp
        exp2 expm1 floor isinf isnan lgamma log log10 log1p log2 logical_not neg reciprocal relu
        round rsqrt sigmoid sign signbit sin sinh sqrt tan tanh trunc i0 special_bessel_j0
        special_bessel_j1 special_erfcx special_i0e special_i1 special_i1e special_ndtri
        special_spherical_bessel_j0 polygamma
        add.Tensor sub.Tensor mul.Tensor div.Tensor div.Tensor_mode fmod.Tensor fmod.Scalar
        remainder.Tensor remainder.Scalar
        pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar atan2 maximum minimum fmax fmin
        copysign.Tensor nextafter hypot gcd igamma igammac special_zeta
        eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor
        eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar
        bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor
        bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar
        bitwise_left_shift.Tensor bitwise_right_shift.Tensor
        logical_and logical_or logical_xor where.self
        complex conj_physical _conj_physical angle frexp.Tensor
    """
    + " ".join(f"special_{name}" for name in (*BESSEL_FUNCTIONS, *POLYNOMIALS)),
    "reduction": """
        sum.dim_IntList prod.dim_int amax amin any.dims argmax argmin var_mean.correction
    """,
    "scan": "cumsum cumprod cummax cummin logcumsumexp",
    "view": """
        view view.dtype expand permute slice.Tensor select.int squeeze.dims unsqueeze diagonal
        unfold as_strided alias view_as_real view_as_complex _conj _neg_view
    """,
    "index": "index.Tensor gather cat constant_pad_nd flip",
    "scatter": """
        index_put scatter.src scatter.value slice_scatter select_scatter diagonal_scatter
        as_strided_scatter
    """,
    "creation": "full arange.start_step empty.memory_format empty_strided empty_permuted",
    "copy": "clone _to_copy copy_ lift_fresh lift_fresh_copy",
    "assertion": """
        _assert_scalar _assert_async _assert_async.msg _assert_tensor_metadata
        sym_constrain_range sym_constrain_range_for_size
    """,
    "symbolic": """
        sym_size.int sym_stride.int sym_numel sym_storage_offset sym_is_contiguous
    """,
}

_SYMBOLIC_FUNCTIONS = frozenset(
    {
        *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
        *(operator.mod, operator.pow, operator.neg, operator.pos, operator.getitem),
        *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
        *(operator.and_, operator.or_, operator.not_, operator.lshift, operator.rshift),
        *(torch.sym_float, torch.sym_int, torch.sym_ite, torch.sym_max, torch.sym_min),
        *(torch.sym_not, torch.sym_sqrt, torch.sym_sum),
    }
)
"""Functions of Python numbers and sizes; `getitem` also takes one result of several."""


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def by_name(table: Mapping[K, str]) -> Mapping[str, K]:
    """Return the key of each operator in a table; "mm" in a text is "mm.default"."""
    return {
        name if "." in name else f"{name}.default": key
        for key, names in table.items()
        for name in names.split()
    }


@functools.cache
def canonical_operators() -> Mapping[str, CanonicalKind]:
    """Return the kind of each canonical ATen operator, by name: "add.Tensor" → "pointwise"."""
    return by_name(_CANONICAL)


def operator_name(target: object) -> str:
    """Return an operator's name without namespace and overload: "add"."""
    return str(getattr(target, "__name__", target)).split(".")[0]


def canonical_kind(target: object) -> CanonicalKind | None:
    """Return the kind of a node's target; None if it is not a canonical operator.

    A function of sizes or Python numbers, such as `operator.add`, is "symbolic".
    """
    if isinstance(target, torch._ops.OpOverload):
        namespace, _, name = str(target).partition(".")
        return canonical_operators().get(name) if namespace == "aten" else None
    return "symbolic" if target in _SYMBOLIC_FUNCTIONS else None
