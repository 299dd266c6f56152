"""Results of operators on Python constants and other plain values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from fullgraph.rewrites.check.interpreter.values import (
    BOOL,
    PLAIN,
    Literal,
    Plain,
    Unknown,
    Value,
    literal,
)

OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_NUMBERS = frozenset({"int", "float", "bool"})


def identity(left: Value, right: Value, negated: bool) -> Value:
    """Return the value of `left is right`, or of `left is not right` if `negated`.

    If the result is not known, the value is an unknown bool.
    """
    for one, other in ((left, right), (right, left)):
        if len(other) == 1 and isinstance(other[0], Literal) and other[0].value is None:
            nones = [isinstance(o, Literal) and o.value is None for o in one]
            if nones and all(nones):
                return literal(not negated)
            if not any(nones) and not any(isinstance(o, Unknown) for o in one):
                return literal(negated)
            return BOOL
    return BOOL


def fold(op: ast.AST, a: Literal, b: Literal) -> Value:
    """Return the value of `a op b` for two known constants, such as `2 + 3`.

    For operands other than numbers only `==` and `!=` give a constant. For other operators, and on
    an error, only the type is known, or nothing.
    """
    small = all(kind in _NUMBERS or isinstance(op, ast.Eq | ast.NotEq) for kind in (a.kind, b.kind))
    if small:
        try:
            return literal(OPERATORS[type(op)](a.value, b.value))
        except Exception:
            return PLAIN
    return plain_result(op, a.kind, b.kind)


def plain_result(op: ast.AST, a: str, b: str) -> Value:
    if isinstance(op, ast.cmpop):
        return BOOL
    if isinstance(op, ast.Div) and {a, b} <= _NUMBERS:
        return (Plain("float"),)
    return (Plain(a if a == b else "float" if {a, b} == {"int", "float"} else ""),)
