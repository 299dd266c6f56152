"""Scalar expressions: what a loop computes for one element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import sympy
import torch

Substitution = Mapping[sympy.Symbol, sympy.Expr]


@dataclass(frozen=True, eq=False)
class Expression:
    """A scalar of a dtype."""

    dtype: torch.dtype


E = TypeVar("E", bound=Expression)


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    """A Python number."""

    value: bool | int | float

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, eq=False)
class IndexValue(Expression):
    """An index, a size, or a number that Python computes from sizes, as a value."""

    index: sympy.Expr

    def __str__(self) -> str:
        return f"[{self.index}]"


@dataclass(frozen=True, eq=False)
class Indirect:
    """A symbol of an index that stands for a computed position within `size` elements."""

    symbol: sympy.Symbol
    position: Expression
    size: sympy.Expr


@dataclass(frozen=True, eq=False)
class Load(Expression):
    """An element of a buffer; `index` has one entry for each of the buffer's dims."""

    buffer: str
    index: tuple[sympy.Expr, ...]
    indirect: tuple[Indirect, ...] = ()

    def __str__(self) -> str:
        text = f"{self.buffer}[{', '.join(map(str, self.index))}]"
        for one in self.indirect:
            text += f"({one.symbol} = {one.position})"
        return text


@dataclass(frozen=True, eq=False)
class Operation(Expression):
    """A scalar operator of `ir.operators` applied to expressions."""

    operator: str
    args: tuple[Expression, ...]

    def __str__(self) -> str:
        name = self.operator
        if name == "cast":
            name = str(self.dtype).removeprefix("torch.")
        return f"{name}({', '.join(map(str, self.args))})"


def children_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly inside an expression."""
    if isinstance(expression, Operation):
        return expression.args
    if isinstance(expression, Load):
        return tuple(one.position for one in expression.indirect)
    return ()


def walk_expressions(expression: Expression) -> Iterator[Expression]:
    """Yield each distinct expression inside, and itself, operands first."""
    seen: set[int] = set()
    stack = [(expression, False)]
    while stack:
        one, is_done = stack.pop()
        if is_done:
            yield one
        elif id(one) not in seen:
            seen.add(id(one))
            stack.append((one, True))
            stack += [(child, False) for child in children_of(one)]


def loads_in(expression: Expression) -> list[Load]:
    """Return the loads inside an expression."""
    return [one for one in walk_expressions(expression) if isinstance(one, Load)]


def transform(
    expression: Expression, change: Callable[[Expression], Expression | None]
) -> Expression:
    """Return a copy in which `change` replaced loads and index values; None keeps one."""
    done: dict[int, Expression] = {}
    for one in walk_expressions(expression):
        if isinstance(one, Operation):
            args = tuple(done[id(arg)] for arg in one.args)
            is_same = all(new is old for new, old in zip(args, one.args, strict=True))
            done[id(one)] = one if is_same else replace(one, args=args)
            continue
        new = one
        if isinstance(one, Load) and one.indirect:
            indirect = (replace(each, position=done[id(each.position)]) for each in one.indirect)
            new = replace(one, indirect=tuple(indirect))
        done[id(one)] = change(new) or new
    return done[id(expression)]


def with_index(expression: E, index_of: Callable[[Load], tuple[sympy.Expr, ...]]) -> E:
    """Return a copy in which each load has the index that `index_of` returns for it."""

    def change(one: Expression) -> Expression | None:
        return replace(one, index=index_of(one)) if isinstance(one, Load) else None

    return cast(E, transform(expression, change))


def substitute(expression: E, values: Substitution) -> E:
    """Return the expression with loop variables replaced in all indices."""
    mapping = dict(values)

    def change(one: Expression) -> Expression | None:
        if isinstance(one, Load):
            return replace(one, index=tuple(part.xreplace(mapping) for part in one.index))
        if isinstance(one, IndexValue):
            return replace(one, index=one.index.xreplace(mapping))
        return None

    return cast(E, transform(expression, change))
