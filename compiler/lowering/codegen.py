"""What code generators share, whatever their language."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import sympy
import torch

from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.compiler.lowering.fusion import Kernel
from fullgraph.compiler.lowering.ir import (
    Buffer,
    Constant,
    Expression,
    HostNumber,
    IndexValue,
    Load,
    Operation,
)
from fullgraph.compiler.private import python_text

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
"""Scalar operators that are infix in each language."""
NumberType = Literal["int64", "float64"]
Axes = frozenset[str]
"""Loops along which a value differs: "x" for outer iterations, "r" for inner ones."""
NONE: Axes = frozenset()


def worst_value(kind: str, dtype: torch.dtype) -> float:
    """Return the number that every other replaces in a maximum or minimum."""
    is_max = kind in ("max", "argmax", "logsumexp")
    if dtype.is_floating_point:
        return -math.inf if is_max else math.inf
    if dtype == torch.bool:
        return not is_max
    limits = torch.iinfo(dtype)
    return limits.min if is_max else limits.max


@dataclass(frozen=True)
class KernelSource:
    """A function in the language of a code generator, and what it is called with."""

    name: str
    """Name by content: equal kernels have equal names."""
    text: str
    buffers: tuple[str, ...]
    numbers: tuple[NumberType, ...]
    """Dtypes of the sizes, and of other numbers that Python computes, after the buffers."""
    has_error: bool
    """Whether the last argument is a flag that is set if a position is out of range."""
    arguments: tuple[str, ...]
    """Python text of each argument: of the buffers, the sizes, and what the language adds."""


@dataclass
class Arguments:
    """Parameters of a kernel: buffers and symbols of numbers, in the order of their first use."""

    buffers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name and type of each buffer's pointer."""
    written: set[str] = field(default_factory=set)
    numbers: dict[sympy.Symbol, str] = field(default_factory=dict)
    has_error: bool = False
    variables: int = 0
    """Number of variables so far."""

    def pointer(self, buffer: str, type_: str) -> str:
        """Return the pointer to a buffer."""
        if buffer not in self.buffers:
            self.buffers[buffer] = (f"b{len(self.buffers)}", type_)
        return self.buffers[buffer][0]

    def number(self, symbol: sympy.Symbol) -> str:
        """Return the parameter for a symbol of a size or of another number."""
        return self.numbers.setdefault(symbol, f"n{len(self.numbers)}")

    def new_variable(self) -> str:
        """Return the name of a new variable."""
        self.variables += 1
        return f"v{self.variables - 1}"

    def source(
        self, name: str, text: str, tensor: str, *others: str, float64: str = "{}"
    ) -> KernelSource:
        """Return the source of a kernel; `tensor` is the format of a tensor among its arguments.

        `others` are arguments after the numbers, `float64` is the format of a number of that dtype.
        """
        arguments = list(map(tensor.format, self.buffers))
        for number in self.numbers:
            arguments.append(("{}" if number.is_integer else float64).format(size_text(number)))
        arguments += others
        arguments += [tensor.format("error")] if self.has_error else []
        dtypes: tuple[NumberType, ...] = tuple(
            "int64" if one.is_integer else "float64" for one in self.numbers
        )
        buffers = tuple(self.buffers)
        return KernelSource(name, text, buffers, dtypes, self.has_error, tuple(arguments))


@dataclass(frozen=True)
class IndexSyntax:
    """How a language writes index arithmetic: formats of operands."""

    number: str
    quotient: str
    remainder: str
    """Of numbers that are not negative."""
    floor_div: str
    floor_mod: str
    """Of a dividend that may be negative."""
    larger: str
    smaller: str
    choice: str = "({0} ? {1} : {2})"
    logic: tuple[str, str, str] = ("&&", "||", "!")
    """Logical and, or, not."""


PYTHON_INDEX = IndexSyntax(
    "{}", "({0} // {1})", "({0} % {1})", "({0} // {1})", "({0} % {1})",
    "max({0}, {1})", "min({0}, {1})", "({1} if {0} else {2})", ("and", "or", "not"),
)  # fmt: skip


def index_text(value: sympy.Basic, names: Mapping[sympy.Symbol, str], syntax: IndexSyntax) -> str:
    """Return index arithmetic, or a condition, in a language; `names` has each symbol's name there.

    Raises `UnsupportedOperator` for a function that is not known here.
    """
    if isinstance(value, sympy.Symbol):
        return names[value]
    if isinstance(value, sympy.Integer):
        return syntax.number.format(int(value))
    if isinstance(value, sympy.Piecewise):
        *pairs, last = value.args
        text = index_text(last.args[0], names, syntax)
        for pair in reversed(pairs):
            result, condition = (index_text(one, names, syntax) for one in pair.args)
            text = syntax.choice.format(condition, result, text)
        return text
    args = [index_text(arg, names, syntax) for arg in value.args]
    kind = type(value).__name__
    if isinstance(value, sympy.Add):
        return f"({' + '.join(args)})"
    if isinstance(value, sympy.Mul):
        return f"({' * '.join(args)})"
    if kind in ("FloorDiv", "CleanDiv", "Mod", "PythonMod"):
        is_mod, may_be_negative = kind.endswith("Mod"), _may_be_negative(value.args[0])
        if may_be_negative:
            return (syntax.floor_mod if is_mod else syntax.floor_div).format(*args)
        return (syntax.remainder if is_mod else syntax.quotient).format(*args)
    if kind == "ModularIndexing":
        return syntax.floor_mod.format(syntax.floor_div.format(*args[:2]), args[2])
    if kind in ("Max", "Min"):
        choose = (syntax.larger if kind == "Max" else syntax.smaller).format
        return functools.reduce(choose, args)
    if isinstance(value, sympy.Pow) and value.exp.is_Integer and value.exp > 0:
        return f"({' * '.join([args[0]] * int(value.exp))})"
    if isinstance(value, sympy.core.relational.Relational):
        return f"({args[0]} {value.rel_op} {args[1]})"
    if isinstance(value, sympy.And | sympy.Or):
        sign = syntax.logic[isinstance(value, sympy.Or)]
        return f"({f' {sign} '.join(args)})"
    if isinstance(value, sympy.Not):
        return f"({syntax.logic[2]} {args[0]})"
    raise UnsupportedOperator(f"backend `loops`: there is no index arithmetic with {kind}")


def size_text(value: sympy.Basic) -> str:
    """Return a number, or a condition of sizes, as a Python expression of its symbols."""
    if value in (sympy.true, sympy.false):
        return str(bool(value))
    has_fractions = value.has(sympy.Float) or any(not one.is_integer for one in value.free_symbols)
    if has_fractions and not value.is_Symbol:
        known = {one: one.definition for one in value.free_symbols if isinstance(one, HostNumber)}
        return f"({python_text(value.xreplace(known))})"
    names = {
        symbol: f"({python_text(symbol.definition)})"
        if isinstance(symbol, HostNumber)
        else str(symbol)
        for symbol in value.free_symbols
    }
    return index_text(value, names, PYTHON_INDEX)


def _may_be_negative(value: sympy.Basic) -> bool:
    parts = value.atoms(sympy.Integer, sympy.Rational, sympy.Symbol)
    return any(not part.is_nonnegative for part in parts)


@dataclass
class ExpressionWriter(ABC):
    """Writer of an expression's statements, in which each distinct value is one variable."""

    arguments: Arguments
    names: dict[sympy.Symbol, str]
    """Names of the loop variables."""
    axes: dict[str, Axes]
    """Axes of each variable; none if it is missing."""
    read_local: Callable[[Load], tuple[str, Axes] | None]
    """Returns the text and the axes of a value that the kernel itself computed."""
    lines: list[str] = field(default_factory=list, kw_only=True)
    _known: dict[str, str] = field(default_factory=dict, kw_only=True)
    """Variable of each text."""
    _values: dict[int, tuple[Expression, str]] = field(default_factory=dict, kw_only=True)
    syntax: ClassVar[IndexSyntax]

    @staticmethod
    @abstractmethod
    def operator_text(
        operator: str, args: list[str], source: torch.dtype, dtype: torch.dtype
    ) -> str:
        """Return a scalar operator applied to values of the dtype `source`."""

    @abstractmethod
    def define(self, text: str, dtype: torch.dtype, axes: Axes) -> str:
        """Return a variable with the value of a text; write its definition if it is new."""

    @abstractmethod
    def _constant(self, constant: Constant) -> str: ...

    @abstractmethod
    def _number(self, text: str, dtype: torch.dtype, *, is_integer: bool) -> str:
        """Return an index, or another number, as a value of a dtype to compute with."""

    @abstractmethod
    def _load(self, load: Load, positions: dict[sympy.Symbol, str], axes: Axes) -> str: ...

    @abstractmethod
    def _check_position(self, args: list[str], axes: Axes) -> str: ...

    @abstractmethod
    def _masked(self, operation: Operation) -> str:
        """Write `masked(condition, value, other)`: loads of the value run under the condition."""

    def inside(self) -> Self:
        """Return a writer of statements inside these, to which its values are not known."""
        return replace(self, lines=[], _known=dict(self._known), _values=dict(self._values))

    def axes_of(self, names: Iterable[str]) -> Axes:
        """Return the axes along which one of the variables differs."""
        return NONE.union(*(self.axes.get(name, NONE) for name in names))

    def axes_of_index(self, index: sympy.Expr) -> Axes:
        """Return the axes along which an index differs."""
        return self.axes_of(self.names[one] for one in index.free_symbols if one in self.names)

    def value(self, expression: Expression) -> str:
        """Write an expression's statements; return its value: a variable or a constant."""
        found = self._values.get(id(expression))
        if found is None:
            found = (expression, self._write(expression))  # holds the expression: ids are reused
            self._values[id(expression)] = found
        return found[1]

    def _write(self, expression: Expression) -> str:
        """Write the statements of an expression that is new; return its value."""
        if isinstance(expression, Constant):
            return self._constant(expression)
        if isinstance(expression, IndexValue):
            index, dtype = expression.index, expression.dtype
            text = self._number(self.index(index), dtype, is_integer=bool(index.is_integer))
            return self.define(text, dtype, self.axes_of_index(index))
        if isinstance(expression, Load):
            local = self.read_local(expression)
            if local is not None:
                text, axes = local
                if not text.isidentifier():
                    return self.define(text, expression.dtype, axes)
                self.axes[text] = axes
                return text
            positions = self.positions(expression)
            axes = self.axes_of_index(expression.index[0]) | self.axes_of(positions.values())
            return self._load(expression, positions, axes)
        assert isinstance(expression, Operation)
        if expression.operator == "masked":
            return self._masked(expression)
        args = [self.value(arg) for arg in expression.args]
        if expression.operator == "wrap_index":
            self.arguments.has_error = True
            return self._check_position(args, self.axes_of(args))
        source, dtype = expression.args[-1].dtype, expression.dtype
        text = self.operator_text(expression.operator, args, source, dtype)
        return self.define(text, dtype, self.axes_of(args))

    def positions(self, load: Load) -> dict[sympy.Symbol, str]:
        """Write the computed positions in an index; return the value of each."""
        return {one.symbol: self.value(one.position) for one in load.indirect}

    def index(self, value: sympy.Expr, extra: dict[sympy.Symbol, str] | None = None) -> str:
        """Return index arithmetic as text."""
        names = {**self.names, **(extra or {})}
        for symbol in sorted(value.free_symbols - set(names), key=str):
            names[symbol] = self.arguments.number(symbol)
        return index_text(value, names, self.syntax)


@dataclass(frozen=True)
class CodeGenerator:
    """A language of kernels: how one is written, and how its functions are loaded."""

    name: str
    write: Callable[[Kernel, dict[str, Buffer], frozenset[str]], KernelSource]
    """Takes a kernel, all buffers, and the names of those that something else reads."""
    load: Callable[[Iterable[KernelSource]], dict[str, Callable[..., None]]]
    """Returns the functions of kernels by name; those not on disk are compiled first."""
