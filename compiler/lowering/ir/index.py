"""Index arithmetic: integer expressions of loop variables, simplified by the ranges of those.

A loop variable v with size n takes the values 0 … n - 1. Symbols that are not loop variables are
sizes, at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import sympy

Ranges = Mapping[sympy.Symbol, sympy.Expr]
"""Size of each loop variable."""


class FloorDiv(sympy.Function):
    """Quotient of two integers, rounded down; the divisor is positive."""

    nargs = (2,)
    is_integer = True

    @classmethod
    def eval(cls, value: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr | None:
        """Return a simpler equal expression, or None."""
        if divisor == 1 or value == 0:
            return value
        if value.is_Integer and divisor.is_Integer:
            return sympy.Integer(int(value) // int(divisor))
        return None


class Mod(sympy.Function):
    """Remainder of two integers; divisor and remainder are not negative."""

    nargs = (2,)
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, value: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr | None:
        """Return a simpler equal expression, or None."""
        if divisor == 1 or value == 0:
            return sympy.Integer(0)
        if value.is_Integer and divisor.is_Integer:
            return sympy.Integer(int(value) % int(divisor))
        return None


def loop_variable(prefix: str, number: int) -> sympy.Symbol:
    """Return the loop variable of a name and a number; equal arguments give equal variables."""
    return sympy.Symbol(f"{prefix}{number}", integer=True, nonnegative=True)


def loop_variables(count: int, prefix: str = "i") -> tuple[sympy.Symbol, ...]:
    """Return the loop variables `i0, i1, …`."""
    return tuple(loop_variable(prefix, number) for number in range(count))


def variables_of(sizes: Sequence[sympy.Expr], prefix: str = "i") -> tuple[sympy.Expr, ...]:
    """Return the loop variables of dims; 0 for a dim of size 1."""
    return tuple(
        sympy.Integer(0) if size == 1 else loop_variable(prefix, number)
        for number, size in enumerate(sizes)
    )


def ranges_of(sizes: Sequence[sympy.Expr], prefix: str = "i") -> dict[sympy.Symbol, sympy.Expr]:
    """Return the size of each loop variable of dims."""
    pairs = zip(variables_of(sizes, prefix), sizes, strict=True)
    return {variable: size for variable, size in pairs if size != 1}


def product(sizes: Sequence[sympy.Expr]) -> sympy.Expr:
    """Return the product of sizes; 1 if there are none."""
    return sympy.expand(sympy.Mul(*sizes))


def contiguous_strides(sizes: Sequence[sympy.Expr]) -> tuple[sympy.Expr, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(product(sizes[position + 1 :]) for position in range(len(sizes)))


def flatten_index(index: Sequence[sympy.Expr], strides: Sequence[sympy.Expr]) -> sympy.Expr:
    """Return the offset of an element: the sum of index times stride."""
    return sympy.expand(sum((i * s for i, s in zip(index, strides, strict=True)), sympy.Integer(0)))


def unflatten_index(
    offset: sympy.Expr, sizes: Sequence[sympy.Expr], ranges: Ranges
) -> tuple[sympy.Expr, ...]:
    """Return the index of element number `offset` of a contiguous tensor."""
    result = []
    for position, (size, stride) in enumerate(zip(sizes, contiguous_strides(sizes), strict=True)):
        if size == 1:
            result.append(sympy.Integer(0))
            continue
        quotient = floor_div(offset, stride, ranges)
        is_outermost = all(outer == 1 for outer in sizes[:position])
        result.append(quotient if is_outermost else modulo(quotient, size, ranges))
    return tuple(result)


def reshape_index(
    index: Sequence[sympy.Expr],
    new: Sequence[sympy.Expr],
    old: Sequence[sympy.Expr],
    ranges: Ranges,
) -> tuple[sympy.Expr, ...]:
    """Return the index into sizes `old` of the element at `index` of sizes `new`.

    Both hold the same elements in row-major order. Dims are matched in groups of equal products.
    """
    result: list[sympy.Expr] = []
    index = [part for part, size in zip(index, new, strict=True) if size != 1]
    new = [size for size in new if size != 1]
    start_new = start_old = 0
    while start_old < len(old):
        end_new, end_old = _match_group(new, old, start_new, start_old)
        group = old[start_old:end_old]
        if len(group) == 1 and end_new - start_new == 1:
            result.append(index[start_new])
        else:
            strides = contiguous_strides(new[start_new:end_new])
            offset = flatten_index(index[start_new:end_new], strides)
            result += unflatten_index(offset, group, ranges)
        start_new, start_old = end_new, end_old
    return tuple(result)


def _match_group(
    new: Sequence[sympy.Expr], old: Sequence[sympy.Expr], start_new: int, start_old: int
) -> tuple[int, int]:
    """Return the ends of the smallest groups of dims with equal products from the given starts."""
    for end_old in range(start_old + 1, len(old) + 1):
        wanted = product(old[start_old:end_old])
        for end_new in range(start_new, len(new) + 1):
            if product(new[start_new:end_new]) == wanted:
                return end_new, end_old
    return len(new), len(old)


def floor_div(value: sympy.Expr, divisor: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    """Return `value // divisor`, simplified."""
    quotient, rest = _divide(value, divisor)
    if _is_below(rest, divisor, ranges):
        return quotient
    common, rest = _drop_small(rest, divisor, ranges)
    return quotient + FloorDiv(rest, divisor / common)


def modulo(value: sympy.Expr, divisor: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    """Return `value % divisor`, simplified."""
    _, rest = _divide(value, divisor)
    if _is_below(rest, divisor, ranges):
        return rest
    common, large = _drop_small(rest, divisor, ranges)
    small = sympy.expand(rest - large * common)
    return common * Mod(large, divisor / common) + small


def _divide(value: sympy.Expr, divisor: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """Return a quotient and a rest of `value`: the sum of the terms that `divisor` divides."""
    quotient: list[sympy.Expr] = []
    rest: list[sympy.Expr] = []
    for term in sympy.Add.make_args(sympy.expand(value)):
        part = term / divisor
        is_exact = part.as_numer_denom()[1] == 1 and part.is_integer
        (quotient if is_exact else rest).append(part if is_exact else term)
    return sympy.Add(*quotient), sympy.Add(*rest)


def _drop_small(
    value: sympy.Expr, divisor: sympy.Expr, ranges: Ranges
) -> tuple[sympy.Expr, sympy.Expr]:
    """Return (c, x): `value // divisor` is `x // (divisor / c)`, with terms below c left out."""
    one = sympy.Integer(1)
    if not divisor.is_Integer:
        return one, value
    terms = sympy.Add.make_args(value)
    factors = sorted({abs(int(term.as_coeff_Mul()[0])) for term in terms}, reverse=True)
    for factor in factors:
        common = math.gcd(factor, int(divisor))
        if common == 1:
            continue
        large, small = _divide(value, sympy.Integer(common))
        if _is_below(small, sympy.Integer(common), ranges):
            return sympy.Integer(common), large
    return one, value


def _is_below(value: sympy.Expr, limit: sympy.Expr, ranges: Ranges) -> bool:
    """Return whether `0 <= value < limit` for all values of the loop variables."""
    bounds = _bounds(value, ranges)
    return bounds is not None and all(
        sympy.expand(one).is_nonnegative for one in (bounds[0], limit - 1 - bounds[1])
    )


def _bounds(value: sympy.Expr, ranges: Ranges) -> tuple[sympy.Expr, sympy.Expr] | None:
    """Return the smallest and the largest value, as expressions of sizes; None if unknown."""
    if value in ranges:
        return sympy.Integer(0), ranges[value] - 1
    if isinstance(value, Mod):
        return sympy.Integer(0), value.args[1] - 1
    if isinstance(value, FloorDiv):
        found = _bounds(value.args[0], ranges)
        return found and (FloorDiv(found[0], value.args[1]), FloorDiv(found[1], value.args[1]))
    if isinstance(value, sympy.Add):
        bounds = [_bounds(term, ranges) for term in value.args]
        known = [one for one in bounds if one is not None]
        if len(known) < len(bounds):
            return None
        return sympy.Add(*(low for low, _ in known)), sympy.Add(*(high for _, high in known))
    if isinstance(value, sympy.Mul):
        factor, rest = value.as_independent(*ranges, Mod, FloorDiv)
        found = None if rest == value else _bounds(rest, ranges)
        if found and factor.is_nonnegative:
            return factor * found[0], factor * found[1]
        if found and factor.is_nonpositive:
            return factor * found[1], factor * found[0]
    return None if value.free_symbols & set(ranges) else (value, value)


def simplify(value: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    """Return an equal expression in which quotients and remainders are simplified by the ranges."""
    return _simplify_parts(value, ranges) if value.has(FloorDiv, Mod) else value


def _simplify_parts(value: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    """Simplify from the leaves up."""
    if not value.args:
        return value
    args = [_simplify_parts(arg, ranges) for arg in value.args]
    if isinstance(value, FloorDiv):
        return floor_div(args[0], args[1], ranges)
    if isinstance(value, Mod):
        return modulo(args[0], args[1], ranges)
    value = value.func(*args)
    return _recombine(value) if isinstance(value, sympy.Add) else value


def _recombine(value: sympy.Expr) -> sympy.Expr:
    """Replace `c·d·(x // d) + c·(x % d)` by `c·x`."""
    value = sympy.expand(value)
    while True:
        terms = list(sympy.Add.make_args(value))
        for term in terms:
            calls = [one for one in sympy.Mul.make_args(term) if isinstance(one, Mod)]
            if len(calls) != 1:
                continue
            factor = sympy.Mul(*(one for one in sympy.Mul.make_args(term) if one is not calls[0]))
            number, divisor = calls[0].args
            other = sympy.expand(factor * divisor * floor_div(number, divisor, {}))
            if not set(sympy.Add.make_args(other)) - set(terms):
                value = sympy.expand(value - term - other + factor * number)
                break
        else:
            return value
