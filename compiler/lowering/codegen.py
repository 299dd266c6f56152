"""What code generators share, whatever their language."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import sympy

from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.compiler.lowering.fusion import Kernel
from fullgraph.compiler.lowering.ir import Buffer, Expression, FloorDiv, Mod

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
"""Scalar operators that are infix in each language."""


@dataclass(frozen=True)
class KernelSource:
    """A function in the language of a code generator, and what it is called with."""

    name: str
    """Name by content: equal kernels have equal names."""
    text: str
    buffers: tuple[str, ...]
    sizes: tuple[sympy.Symbol, ...]
    has_error: bool
    """Whether the last argument is a flag that is set if a position is out of range."""
    arguments: tuple[str, ...]
    """Python text of each argument: of the buffers, the sizes, and what the language adds."""


@dataclass
class Arguments:
    """Parameters of a kernel: buffers and symbols of sizes, in the order of their first use."""

    buffers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name and type of each buffer's pointer."""
    written: set[str] = field(default_factory=set)
    sizes: dict[sympy.Symbol, str] = field(default_factory=dict)
    has_error: bool = False

    def pointer(self, buffer: str, type_: str) -> str:
        """Return the pointer to a buffer."""
        if buffer not in self.buffers:
            self.buffers[buffer] = (f"b{len(self.buffers)}", type_)
        return self.buffers[buffer][0]

    def size(self, symbol: sympy.Symbol) -> str:
        """Return the parameter for a symbol of a size."""
        return self.sizes.setdefault(symbol, f"n{len(self.sizes)}")


@dataclass(frozen=True)
class IndexSyntax:
    """How a language writes index arithmetic."""

    number: str
    """Format of an integer: "{}L"."""
    divide: str
    remainder: str
    """Operators on numbers that are not negative."""
    floor_div: str
    floor_mod: str
    """Functions of a dividend that may be negative."""
    larger: str
    smaller: str
    """Formats of the larger and the smaller of two: "max({0}, {1})"."""


def index_text(value: sympy.Expr, names: dict[sympy.Symbol, str], syntax: IndexSyntax) -> str:
    """Return index arithmetic in a language; `names` has each symbol's name there.

    Raises `UnsupportedOperator` for a function that kernels do not have.
    """
    if isinstance(value, sympy.Symbol):
        return names[value]
    if value.is_Integer:
        return syntax.number.format(int(value))
    args = [index_text(arg, names, syntax) for arg in value.args]
    if isinstance(value, sympy.Add):
        return f"({' + '.join(args)})"
    if isinstance(value, sympy.Mul):
        return f"({' * '.join(args)})"
    kind = type(value).__name__
    if isinstance(value, FloorDiv) or kind in ("FloorDiv", "CleanDiv"):
        return _quotient_text(syntax.floor_div, syntax.divide, value, args)
    if isinstance(value, Mod) or kind in ("PythonMod", "Mod"):
        return _quotient_text(syntax.floor_mod, syntax.remainder, value, args)
    if kind in ("Max", "Min"):
        choose = (syntax.larger if kind == "Max" else syntax.smaller).format
        return functools.reduce(choose, args)
    if isinstance(value, sympy.Pow) and value.exp.is_Integer and 0 < value.exp <= 8:
        return f"({' * '.join([args[0]] * int(value.exp))})"
    if kind == "ModularIndexing":
        quotient = f"{syntax.floor_div}({args[0]}, {args[1]})"
        return f"{syntax.floor_mod}({quotient}, {args[2]})"
    raise UnsupportedOperator(f"backend `loops`: kernels have no index arithmetic with {kind}")


def _quotient_text(function: str, sign: str, value: sympy.Expr, args: list[str]) -> str:
    """Return a quotient or remainder: by the operator unless the dividend may be negative."""
    parts = value.args[0].atoms(sympy.Integer, sympy.Rational, sympy.Symbol)
    has_minus = any(not part.is_nonnegative for part in parts)
    return f"{function}({', '.join(args)})" if has_minus else f"({f' {sign} '.join(args)})"


@dataclass
class ExpressionWriter(ABC):
    """Writer of an expression's statements, in which each distinct value is one variable."""

    arguments: Arguments
    variables: dict[sympy.Symbol, str]
    """Names of the loop variables."""
    _values: dict[int, tuple[Expression, str]] = field(default_factory=dict, kw_only=True)
    syntax: ClassVar[IndexSyntax]

    @abstractmethod
    def _write(self, expression: Expression) -> str:
        """Write the statements of an expression that is new; return its value."""

    def value(self, expression: Expression) -> str:
        """Write an expression's statements; return its value: a variable or a constant."""
        found = self._values.get(id(expression))
        if found is None:
            found = (expression, self._write(expression))  # holds the expression: ids are reused
            self._values[id(expression)] = found
        return found[1]

    def index(self, value: sympy.Expr, extra: dict[sympy.Symbol, str] | None = None) -> str:
        """Return index arithmetic as text."""
        names = {**self.variables, **(extra or {})}
        for symbol in sorted(value.free_symbols - set(names), key=str):
            names[symbol] = self.arguments.size(symbol)
        return index_text(value, names, self.syntax)


@dataclass(frozen=True)
class CodeGenerator:
    """A language of kernels: how one is written, and how its functions are loaded."""

    name: str
    write: Callable[[Kernel, dict[str, Buffer], frozenset[str]], KernelSource]
    """Takes a kernel, all buffers, and the names of those that something else reads."""
    load: Callable[[Iterable[KernelSource]], dict[str, Callable[..., None]]]
    """Returns the functions of kernels by name; those not on disk are compiled first."""


def cache_folder() -> Path:
    """Return the folder of compiled kernels: `FULLGRAPH_CACHE_DIR`, or one in the user's cache."""
    given = os.environ.get("FULLGRAPH_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(given, "loops") if given else Path(home, "fullgraph", "loops")
