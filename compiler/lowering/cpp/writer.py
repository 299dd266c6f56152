"""Writer of C++ statements: each distinct value of an expression becomes one variable."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy
import torch

from fullgraph.compiler.lowering.codegen import NONE, Axes, ExpressionWriter
from fullgraph.compiler.lowering.cpp.scalars import (
    CPP_INDEX,
    STORAGE,
    compute_type,
    load_text,
    number_text,
    operator_text,
)
from fullgraph.compiler.lowering.ir import Constant, Expression, Load, Operation


@dataclass
class Writer(ExpressionWriter):
    """Statements of one loop body.

    A value with no axes does not depend on the loop; it is computed in `before`, the statements
    before the loop.
    """

    syntax = CPP_INDEX
    operator_text = staticmethod(operator_text)
    before: list[str] = field(default_factory=list)
    is_vector: bool = True
    _condition: Axes = NONE
    """Axes of every value under a condition: none is computed before the loop."""

    def define(self, text: str, dtype: torch.dtype, axes: Axes) -> str:
        """Return a variable with the value of a text; write its definition if it is new."""
        type_ = compute_type(dtype)
        key = f"{type_} {text}"
        if key not in self._known:
            name = self._known[key] = self.arguments.new_variable()
            self.axes[name] = axes = axes | self._condition
            (self.lines if axes else self.before).append(f"{type_} {name} = {text};")
        return self._known[key]

    def _constant(self, constant: Constant) -> str:
        return number_text(constant.value, constant.dtype)

    def _number(self, text: str, dtype: torch.dtype, *, is_integer: bool) -> str:
        return text if dtype == torch.int64 else f"({compute_type(dtype)}){text}"

    def _check_position(self, args: list[str], axes: Axes) -> str:
        self.is_vector = self.is_vector and not axes
        text = f"checked_position({args[0]}, {args[1]}, error)"
        return self.define(text, torch.int64, axes)

    def _load(self, load: Load, positions: dict[sympy.Symbol, str], axes: Axes) -> str:
        pointer = self.arguments.pointer(load.buffer, STORAGE[load.dtype])
        text = f"{pointer}[{self.index(load.index[0], positions)}]"
        return self.define(load_text(text, load.dtype), load.dtype, axes)

    def _masked(self, operation: Operation) -> str:
        condition, (_, value, other) = self.value(operation.args[0]), operation.args
        name = self.arguments.new_variable()
        parts = [self._assign(name, value), self._assign(name, other)]
        self.lines += [
            f"{compute_type(operation.dtype)} {name};",
            f"if ({condition}) {{ {parts[0]} }} else {{ {parts[1]} }}",
        ]
        self.axes[name] = frozenset("r")
        return name

    def _assign(self, name: str, value: Expression) -> str:
        """Return the statements of one branch, which assign a value to a variable."""
        inside = self.inside()
        inside._condition = frozenset("r")
        text = inside.value(value)
        self.is_vector = self.is_vector and inside.is_vector
        return " ".join([*inside.lines, f"{name} = {text};"])
