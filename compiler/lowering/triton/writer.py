"""Writer of Triton statements: each distinct value of an expression becomes one variable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import sympy
import torch

from fullgraph.compiler.lowering.codegen import ExpressionWriter
from fullgraph.compiler.lowering.ir import Constant, Expression, IndexValue, Load, Operation
from fullgraph.compiler.lowering.triton.scalars import (
    TRITON_INDEX,
    TYPES,
    compute_type,
    number_text,
    operator_text,
)

Axes = frozenset[str]
"""Axes of the tile along which a value differs: "x" of outer iterations, "r" of inner ones."""
NONE: Axes = frozenset()


@dataclass
class Writer(ExpressionWriter):
    """Statements of one block: values of a tile, computed under masks."""

    syntax = TRITON_INDEX
    axes: dict[str, Axes]
    """Axes of each variable so far."""
    read_local: Callable[[Load], str | None]
    """Returns the variable of a value that the kernel itself computed."""
    lines: list[str] = field(default_factory=list)
    _condition: str = ""
    """Variable of the condition under which values are computed; "" for none."""
    _known: dict[str, str] = field(default_factory=dict)

    def block(self) -> Writer:
        """Return a writer of statements inside these, to which its values are not known."""
        known, values = dict(self._known), dict(self._values)
        return replace(self, lines=[], _known=known, _values=values)

    def pointer(
        self, buffer: str, dtype: torch.dtype, offset: sympy.Expr, axes: Axes,
        positions: dict[sympy.Symbol, str],
    ) -> str:  # fmt: skip
        """Return pointers to elements of a buffer, one for each position of the tile on `axes`."""
        base = self.arguments.pointer(buffer, TYPES[dtype])
        zeros = (
            "".join(f" + zero_{axis}" for axis in sorted(axes)) or " + tl.full([1], 0, tl.int32)"
        )
        return f"{base} + ({self.index(offset, positions)}{zeros})"

    def mask(self, axes: Axes) -> str:
        """Return the mask of a tile on `axes`; "" if everything is inside."""
        conditions = [self._condition] if self._condition else []
        return " & ".join([*(f"in_{axis}" for axis in sorted(axes)), *conditions])

    def axes_of(self, index: sympy.Expr, positions: dict[sympy.Symbol, str]) -> Axes:
        """Return the axes along which an index differs."""
        names = [self.variables[v] for v in index.free_symbols if v in self.variables]
        names += positions.values()
        return NONE.union(*(self.axes.get(name, NONE) for name in names))

    def define(self, text: str, axes: Axes) -> str:
        """Return a variable with the value of a text; write its definition if it is new."""
        if text not in self._known:
            name = f"v{len(self.axes)}"
            self.axes[name] = axes
            self._known[text] = name
            self.lines.append(f"{name} = {text}")
        return self._known[text]

    def _write(self, expression: Expression) -> str:
        if isinstance(expression, Constant):
            return self.define(number_text(expression.value, expression.dtype), NONE)
        if isinstance(expression, IndexValue):
            text = f"tl.full([1], 0, tl.int64) + {self.index(expression.index)}"
            return self.define(text, self.axes_of(expression.index, {}))
        if isinstance(expression, Load):
            return self._load(expression)
        assert isinstance(expression, Operation)
        if expression.operator == "masked":
            return self._masked(expression)
        args = [self.value(arg) for arg in expression.args]
        axes = NONE.union(*(self.axes[arg] for arg in args))
        if expression.operator == "wrap_index":
            self.arguments.has_error = True
            mask = self.mask(axes | self.axes.get(self._condition, NONE)) or "True"
            return self.define(f"device.checked_position({', '.join(args)}, error, {mask})", axes)
        source = expression.args[-1].dtype
        text = operator_text(expression.operator, args, source, expression.dtype)
        return self.define(text, axes)

    def _load(self, load: Load) -> str:
        local = self.read_local(load)
        if local is not None:
            return local
        positions = {one.symbol: self.value(one.position) for one in load.indirect}
        axes = self.axes_of(load.index[0], positions) | self.axes.get(self._condition, NONE)
        pointer = self.pointer(load.buffer, load.dtype, load.index[0], axes, positions)
        mask = self.mask(axes)
        value = f"tl.load({pointer}, {mask}, other=0)" if mask else f"tl.load({pointer})"
        if load.dtype in (torch.bfloat16, torch.float16, torch.bool):
            value += f".to({compute_type(load.dtype)})"
        return self.define(value, axes)

    def _masked(self, expression: Operation) -> str:
        """Write `masked(condition, value, other)`: loads of the value run under the condition."""
        condition, other = self.value(expression.args[0]), self.value(expression.args[2])
        inside = self.block()
        inside.lines = self.lines
        if self._condition:
            axes = self.axes[condition] | self.axes[self._condition]
            inside._condition = self.define(f"{self._condition} & {condition}", axes)
        else:
            inside._condition = condition
        value = inside.value(expression.args[1])
        axes = NONE.union(*(self.axes[name] for name in (condition, value, other)))
        return self.define(f"tl.where({condition}, {value}, {other})", axes)
