"""Writer of Triton statements: each distinct value of an expression becomes one variable."""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from fullgraph.compiler.lowering.codegen import NONE, Axes, ExpressionWriter
from fullgraph.compiler.lowering.ir import Constant, Load, Operation
from fullgraph.compiler.lowering.triton.scalars import (
    TRITON_INDEX,
    TYPES,
    compute_type,
    number_text,
    operator_text,
)


@dataclass
class Writer(ExpressionWriter):
    """Statements of one block: values of a tile, computed under masks."""

    syntax = TRITON_INDEX
    operator_text = staticmethod(operator_text)
    _condition: str = ""
    """Variable of the condition under which values are computed; "" for none."""

    def pointer(self, load: Load, positions: dict[sympy.Symbol, str], axes: Axes) -> str:
        """Return pointers to elements of a buffer, one for each position of the tile on `axes`."""
        base = self.arguments.pointer(load.buffer, TYPES[load.dtype])
        zeros = "".join(f" + zero_{one}" for one in sorted(axes)) or " + tl.full([1], 0, tl.int32)"
        return f"{base} + ({self.index(load.index[0], positions)}{zeros})"

    def mask(self, axes: Axes) -> str:
        """Return the mask of a tile on `axes`; "" if everything is inside."""
        conditions = [self._condition] if self._condition else []
        return " & ".join([*(f"in_{axis}" for axis in sorted(axes)), *conditions])

    def define(self, text: str, dtype: torch.dtype, axes: Axes) -> str:
        """Return a variable with the value of a text; write its definition if it is new."""
        if text not in self._known:
            name = self._known[text] = self.arguments.new_variable()
            self.axes[name] = axes
            self.lines.append(f"{name} = {text}")
        return self._known[text]

    def _constant(self, constant: Constant) -> str:
        return self.define(number_text(constant.value, constant.dtype), constant.dtype, NONE)

    def _number(self, text: str, dtype: torch.dtype, *, is_integer: bool) -> str:
        value = f"tl.full([1], 0, tl.int64) + {text}"
        if not is_integer:  # the bits of a float64
            value = f"({value}).to(tl.float64, bitcast=True)"
        return value if dtype == torch.int64 else f"({value}).to({compute_type(dtype)})"

    def _check_position(self, args: list[str], axes: Axes) -> str:
        mask = self.mask(axes | self.axes_of([self._condition])) or "True"
        text = f"device.checked_position({', '.join(args)}, error, {mask})"
        return self.define(text, torch.int64, axes)

    def _load(self, load: Load, positions: dict[sympy.Symbol, str], axes: Axes) -> str:
        axes |= self.axes_of([self._condition])
        pointer, mask = self.pointer(load, positions, axes), self.mask(axes)
        text = f"tl.load({pointer}, {mask}, other=0)" if mask else f"tl.load({pointer})"
        if load.dtype in (torch.bfloat16, torch.float16, torch.bool):
            text += f".to({compute_type(load.dtype)})"
        return self.define(text, load.dtype, axes)

    def _masked(self, operation: Operation) -> str:
        condition, (_, value, other) = self.value(operation.args[0]), operation.args
        rest = self
        if not isinstance(other, Constant):
            axes = self.axes_of([condition])
            rest = self._under(self.define(f"{condition} == 0", torch.bool, axes))
        texts = [condition, self._under(condition).value(value), rest.value(other)]
        return self.define(f"tl.where({', '.join(texts)})", operation.dtype, self.axes_of(texts))

    def _under(self, condition: str) -> Writer:
        """Return a writer of the same statements whose loads run under a further condition."""
        inside = self.inside()
        inside.lines = self.lines
        inside._condition = condition
        if self._condition:
            text, axes = f"{self._condition} & {condition}", [self._condition, condition]
            inside._condition = self.define(text, torch.bool, self.axes_of(axes))
        return inside
