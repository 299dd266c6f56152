"""Writer of C++ statements: each distinct value of an expression becomes one variable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import sympy

from fullgraph.compiler.lowering.codegen import ExpressionWriter
from fullgraph.compiler.lowering.cpp.scalars import (
    CPP_INDEX,
    STORAGE,
    compute_type,
    load_text,
    number_text,
    operator_text,
)
from fullgraph.compiler.lowering.ir import Constant, Expression, IndexValue, Load, Operation


@dataclass
class Writer(ExpressionWriter):
    """Statements of one loop body.

    A value that does not depend on the loop's variable is computed in `before`, the statements
    before the loop.
    """

    syntax = CPP_INDEX
    moving: frozenset[sympy.Symbol]
    """Variables of the loop itself; those computed from them depend on the loop."""
    read_local: Callable[[Load], tuple[str, bool] | None]
    """Returns the text, and whether it depends on the loop, of what the kernel itself computed."""
    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    is_vector: bool = True
    count: list[int] = field(default_factory=lambda: [0])
    """Number of variables in the kernel so far."""
    _known: dict[str, str] = field(default_factory=dict)
    _dependent: set[str] = field(default_factory=set)
    _is_masked: bool = False

    def _write(self, expression: Expression) -> str:
        if isinstance(expression, Constant):
            return number_text(expression.value, expression.dtype)
        if isinstance(expression, IndexValue):
            text = self.index(expression.index)
            return self._variable("int64_t", text, self._moves(expression.index))
        if isinstance(expression, Load):
            return self._load(expression)
        assert isinstance(expression, Operation)
        if expression.operator == "masked":
            return self._masked(expression)
        type_ = compute_type(expression.dtype)
        args = [self.value(arg) for arg in expression.args]
        is_dependent = any(arg in self._dependent for arg in args)
        if expression.operator == "wrap_index":
            self.arguments.has_error = True
            self.is_vector = self.is_vector and not is_dependent
            text = f"checked_position({args[0]}, {args[1]}, error)"
            return self._variable("int64_t", text, is_dependent)
        source = expression.args[-1].dtype
        text = operator_text(expression.operator, args, source, expression.dtype)
        return self._variable(type_, text, is_dependent)

    def _moves(self, index: sympy.Expr) -> bool:
        return bool(index.free_symbols & self.moving)

    def _load(self, load: Load) -> str:
        local = self.read_local(load)
        if local is not None:
            text, is_dependent = local
            if text.isidentifier():
                if is_dependent:
                    self._dependent.add(text)
                return text
            return self._variable(compute_type(load.dtype), text, is_dependent)
        positions = {one.symbol: self.value(one.position) for one in load.indirect}
        is_dependent = self._moves(load.index[0]) or any(
            name in self._dependent for name in positions.values()
        )
        pointer = self.arguments.pointer(load.buffer, STORAGE[load.dtype])
        text = f"{pointer}[{self.index(load.index[0], positions)}]"
        return self._variable(compute_type(load.dtype), load_text(text, load.dtype), is_dependent)

    def _variable(self, type_: str, text: str, is_dependent: bool) -> str:
        """Return a variable with the value of a text; write its definition if it is new."""
        key = f"{type_} {text}"
        if key not in self._known:
            name = f"x{self.count[0]}"
            self.count[0] += 1
            self._known[key] = name
            is_inside = is_dependent or self._is_masked
            (self.lines if is_inside else self.before).append(f"{type_} {name} = {text};")
            if is_inside:
                self._dependent.add(name)
        return self._known[key]

    def _masked(self, expression: Operation) -> str:
        """Write `masked(condition, value, other)`: loads of the value run under the condition."""
        condition, other = self.value(expression.args[0]), self.value(expression.args[2])
        name = f"x{self.count[0]}"
        self.count[0] += 1
        inside = replace(
            self,
            lines=[],
            _known=dict(self._known),
            _dependent=set(self._dependent),
            _is_masked=True,
            _values=dict(self._values),
        )
        value = inside.value(expression.args[1])
        self.is_vector = self.is_vector and inside.is_vector
        body = " ".join([*inside.lines, f"{name} = {value};"])
        self.lines += [
            f"{compute_type(expression.dtype)} {name} = {other};",
            f"if ({condition}) {{ {body} }}",
        ]
        self._dependent.add(name)
        return name
