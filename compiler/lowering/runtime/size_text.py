"""Sizes as Python expressions."""

from __future__ import annotations

from collections.abc import Sequence

import sympy


def size_text(value: sympy.Expr) -> str:
    """Return a size as a Python expression of its symbols."""
    if isinstance(value, sympy.Symbol):
        return str(value)
    if value.is_Integer:
        return str(int(value))
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
    raise NotImplementedError(f"a size with {kind}")


def tuple_text(sizes: Sequence[sympy.Expr]) -> str:
    """Return sizes as a Python tuple."""
    return f"({', '.join(map(size_text, sizes))}{',' if len(sizes) == 1 else ''})"
