"""The closed set of scalar operators that a code generator implements."""

from __future__ import annotations

import sympy
import torch

from fullgraph.compiler.lowering.ir.expressions import Constant, Expression, IndexValue, Operation
from fullgraph.compiler.lowering.prims import BESSEL_FUNCTIONS, POLYNOMIALS, words

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)
"""Dtypes that loops compute with; of a complex one, they compute on both parts."""


FLOAT_UNARY = words(
    """
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh
    acosh atanh erf erfc lgamma sigmoid reciprocal
    """
)
"""Operators of one floating-point number."""
UNARY = words("neg abs sign floor ceil trunc round not")
"""Operators of one number; the result has the same dtype. `not` inverts bits, or a bool."""
BINARY = words(
    """
    add sub mul div floordiv truncdiv remainder fmod pow maximum minimum and or xor shl shr atan2
    hypot copysign
    """
)
"""Operators of two numbers of one dtype; the result has the same dtype."""
SPECIAL_UNARY = words(
    """
    digamma erfinv erfcx ndtri i0 i0e i1 i1e bessel_j0 bessel_j1 spherical_bessel_j0 mantissa
    exponent
    """
).union(BESSEL_FUNCTIONS)
SPECIAL_BINARY = words("polygamma zeta igamma igammac nextafter gcd").union(POLYNOMIALS)
"""Special functions, which few graphs have: the generator of Triton kernels lacks them."""
PREDICATES = words("eq ne lt le gt ge isnan isinf signbit")
"""Operators whose result is a bool."""
CONTROL = words("cast where masked wrap_index bitcast")
"""`bitcast` takes the bits of a number as one of another dtype of the same size.

`masked(c, x, y)` is `where(c, x, y)` that computes x only where c holds.

`wrap_index(i, n)` is position i of n elements; a negative one counts from the end.
"""

SPECIAL = SPECIAL_UNARY | SPECIAL_BINARY
OPERATORS = FLOAT_UNARY | UNARY | BINARY | PREDICATES | SPECIAL | CONTROL
HEAVY = SPECIAL | FLOAT_UNARY - {"sqrt", "reciprocal", "rsqrt"} | {"pow", "atan2", "hypot"}
"""Operators that are dear to compute twice."""


def apply(operator: str, *args: Expression, dtype: torch.dtype | None = None) -> Expression:
    """Return an operator applied to expressions; by default, of the last one's dtype."""
    if operator not in OPERATORS:
        raise ValueError(f"{operator!r} is not an operator of the loop IR")
    if operator in PREDICATES:
        dtype = torch.bool
    return Operation(dtype or args[-1].dtype, operator, args)


def cast(value: Expression, dtype: torch.dtype) -> Expression:
    """Return the expression converted to a dtype."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Constant):
        return constant(value.value, dtype)
    return Operation(dtype, "cast", (value,))


def constant(value: bool | int | float, dtype: torch.dtype) -> Constant:
    """Return a number as a constant of a dtype."""
    if dtype == torch.bool:
        return Constant(dtype, bool(value))
    if dtype.is_floating_point:
        return Constant(dtype, float(value))
    return Constant(dtype, int(value))


def index_value(index: sympy.Expr) -> Expression:
    """Return an index, or a size, as a value."""
    return IndexValue(torch.int64, index)


def number_value(number: sympy.Expr, dtype: torch.dtype) -> Expression:
    """Return a number that is known at run time alone as a value of a dtype.

    As in eager, it is not rounded to bfloat16 or float16.
    """
    if dtype.is_floating_point:
        return IndexValue(dtype, number)
    return cast(IndexValue(torch.int64 if number.is_integer else torch.float64, number), dtype)


def compare(operator: str, first: sympy.Expr, second: sympy.Expr) -> Expression:
    """Return a comparison of two indices or sizes."""
    return apply(operator, index_value(first), index_value(second))


def is_between(index: sympy.Expr, start: Expression, end: Expression) -> Expression:
    """Return whether `start <= index < end`."""
    is_after = apply("ge", index_value(index), start)
    return apply("and", is_after, apply("lt", index_value(index), end))
