"""Sizes of torch as index arithmetic, and numbers that Python computes from sizes."""

from __future__ import annotations

import sympy

from fullgraph.compiler.private import expression_of

_ARITHMETIC = frozenset(
    {"FloorDiv", "CleanDiv", "Mod", "PythonMod", "ModularIndexing", "Max", "Min", "Add", "Mul"}
)
"""Functions that index arithmetic has, by the names of torch and sympy."""


class HostNumber(sympy.Symbol):
    """Symbol of a number that Python computes before a kernel runs: `int(s0 * 1.5)`, or `1 / s0`.

    An integer is part of index arithmetic as any size; any other number has no assumptions.
    """

    __slots__ = ("definition",)
    definition: sympy.Expr

    def __new__(cls, definition: sympy.Expr) -> HostNumber:
        """Return the symbol; those of equal definitions are equal."""
        is_integer = bool(definition.is_integer)
        assumptions = {"integer": True, "nonnegative": definition.is_nonnegative}
        symbol = sympy.Symbol.__xnew__(
            cls, f"[{definition}]", **(assumptions if is_integer else {"integer": False})
        )
        symbol.definition = definition
        found: HostNumber = symbol
        return found

    def __getnewargs_ex__(self) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the arguments with which the symbol is made again."""
        return (self.definition,), {}


def index_of(value: object) -> sympy.Expr:
    """Return a size, a stride or another integer of torch as expanded index arithmetic.

    Two equal polynomials of sizes are equal expressions then. A function that index arithmetic does
    not have becomes a `HostNumber`.
    """
    return sympy.expand(_with_host_numbers(expression_of(value)))


def number_of(value: object) -> sympy.Expr:
    """Return a number of torch: an integer as index arithmetic, another one as a symbol."""
    number = expression_of(value)
    if not isinstance(number, sympy.Expr) or number.is_number:
        return number
    if number.is_integer:
        return index_of(number)
    return number if number.is_Symbol else HostNumber(number)


def symbols_of(number: sympy.Basic) -> set[sympy.Symbol]:
    """Return the symbols that must be known before a number can be computed."""
    found: set[sympy.Symbol] = set()
    for symbol in number.free_symbols:
        is_computed = isinstance(symbol, HostNumber)
        found |= symbols_of(symbol.definition) if is_computed else {symbol}
    return found


def _with_host_numbers(value: sympy.Expr) -> sympy.Expr:
    if value.is_Symbol or value.is_Integer or isinstance(value, sympy.logic.boolalg.Boolean):
        return value
    is_power = isinstance(value, sympy.Pow) and value.exp.is_Integer and value.exp > 0
    is_known = is_power or type(value).__name__ in _ARITHMETIC
    if not is_known or any(part.is_Number and not part.is_Integer for part in value.args):
        return HostNumber(value)
    return value.func(*map(_with_host_numbers, value.args))
