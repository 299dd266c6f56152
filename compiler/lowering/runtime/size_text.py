"""Sizes as Python expressions."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from fullgraph.compiler.errors import UnsupportedOperator


def size_text(value: sympy.Basic) -> str:
    """Return a size, or a condition of sizes, as a Python expression of its symbols.

    Raises `UnsupportedOperator` for a function that is not known here.
    """
    if isinstance(value, sympy.Symbol):
        return str(value)
    if isinstance(value, sympy.Integer):
        return str(int(value))
    if isinstance(value, sympy.Piecewise):
        *pairs, last = value.args
        text = size_text(last.args[0])
        for result, condition in (pair.args for pair in reversed(pairs)):
            text = f"({size_text(result)} if {size_text(condition)} else {text})"
        return text
    args = [size_text(arg) for arg in value.args]
    kind = type(value).__name__
    if isinstance(value, sympy.Add):
        return f"({' + '.join(args)})"
    if isinstance(value, sympy.Mul):
        return f"({' * '.join(args)})"
    if isinstance(value, sympy.Pow) and value.exp.is_Integer and value.exp > 0:
        return f"{args[0]} ** {args[1]}"
    if kind in ("FloorDiv", "CleanDiv", "IntTrueDiv"):
        return f"({args[0]} // {args[1]})"
    if kind in ("Mod", "PythonMod"):
        return f"({args[0]} % {args[1]})"
    if kind in ("Max", "Min"):
        return f"{kind.lower()}({', '.join(args)})"
    if kind == "ModularIndexing":
        return f"({args[0]} // {args[1]} % {args[2]})"
    if isinstance(value, sympy.core.relational.Relational):
        return f"({args[0]} {value.rel_op} {args[1]})"
    if isinstance(value, sympy.And | sympy.Or):
        return f"({f' {kind.lower()} '.join(args)})"
    if isinstance(value, sympy.Not):
        return f"(not {args[0]})"
    if value in (sympy.true, sympy.false):
        return kind.removeprefix("Boolean")
    raise UnsupportedOperator(f"backend `loops`: a size with {kind} is not computed")


def tuple_text(sizes: Sequence[sympy.Expr]) -> str:
    """Return sizes as a Python tuple."""
    return f"({', '.join(map(size_text, sizes))}{',' if len(sizes) == 1 else ''})"
