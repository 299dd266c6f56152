"""Python operators as functions, by libcst node class."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import libcst as cst

Function = Callable[..., Any]

ARITHMETIC: Mapping[type[cst.CSTNode], Function] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv,
    cst.Modulo: operator.mod,
    cst.Power: operator.pow,
}
COMPARED: Mapping[type[cst.CSTNode], Function] = {
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
}
BINARY: Mapping[type[cst.CSTNode], Function] = {
    **ARITHMETIC,
    **COMPARED,
    cst.MatrixMultiply: operator.matmul,
    cst.BitAnd: operator.and_,
    cst.BitOr: operator.or_,
    cst.BitXor: operator.xor,
}
UNARY: Mapping[type[cst.CSTNode], Function] = {
    cst.Minus: operator.neg,
    cst.Plus: operator.pos,
    cst.BitInvert: operator.invert,
}
