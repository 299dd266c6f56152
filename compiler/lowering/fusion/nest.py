"""A kernel's loop nest in memory: offsets, merged dims, and which dim is contiguous."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import sympy

from fullgraph.compiler.lowering.fusion.kernels import Kernel, Member
from fullgraph.compiler.lowering.ir import (
    Buffer,
    Expression,
    IndexValue,
    Load,
    contiguous_strides,
    flatten_index,
    loads_in,
    loop_variable,
    product,
    ranges_of,
    simplify,
    walk_expressions,
    with_index,
)

Dims = tuple[tuple[sympy.Symbol, sympy.Expr], ...]


@dataclass(frozen=True, eq=False)
class Statement:
    """A member of a kernel; each load, and the target, has one index: an offset in memory."""

    member: Member
    target: Load
    """The element that is written."""
    body: Expression

    def with_index(self, index_of: Callable[[Load], tuple[sympy.Expr, ...]]) -> Statement:
        """Return the statement with other indices of the target and of each load."""
        target, body = with_index(self.target, index_of), with_index(self.body, index_of)
        return Statement(self.member, target, body)


@dataclass(frozen=True, eq=False)
class Nest:
    """The loop nest of a kernel: (variable, size) of the outer and inner loops, and statements."""

    outer: Dims
    inner: Dims
    statements: tuple[Statement, ...]

    @property
    def ranges(self) -> dict[sympy.Symbol, sympy.Expr]:
        """Size of each loop variable."""
        return dict((*self.outer, *self.inner))

    @property
    def inner_count(self) -> sympy.Expr:
        """Number of iterations of the inner loops in each outer one."""
        return product([size for _, size in self.inner])

    @property
    def inner_position(self) -> sympy.Expr:
        """Number of the current one among them."""
        variables, sizes = zip(*self.inner, strict=True)
        return flatten_index(variables, contiguous_strides(sizes))

    @property
    def offsets(self) -> list[sympy.Expr]:
        """Each offset of a load or a store."""
        parts = ((one.target, *loads_in(one.body)) for one in self.statements)
        return [load.index[0] for loads in parts for load in loads]


def make_nest(kernel: Kernel, buffers: dict[str, Buffer]) -> Nest:
    """Return the loop nest of a kernel, with neighbouring dims merged where memory allows it."""
    ranges = kernel.ranges

    def offset_of(load: Load) -> tuple[sympy.Expr]:
        return (simplify(flatten_index(load.index, buffers[load.buffer].strides), ranges),)

    statements = []
    for member in kernel.members:
        target, body = member.loop.written, member.loop.body
        mapped = Statement(member, member.mapped(target, ranges), member.mapped(body, ranges))
        statements.append(mapped.with_index(offset_of))
    outer = tuple(ranges_of(kernel.outer, "o").items())
    inner = tuple(ranges_of(kernel.inner, "r").items())
    if not inner and any(member.phase != "outer" for member in kernel.members):
        inner = ((loop_variable("r", 0), sympy.Integer(1)),)
    nest = Nest(outer, inner, tuple(statements))
    if kernel.is_scatter:
        return nest
    return _merge_dims(_merge_dims(nest, "outer"), "inner")


def _merge_dims(nest: Nest, place: Literal["outer", "inner"]) -> Nest:
    """Merge neighbouring loops where every offset treats them as one.

    The variable of the second loop then counts the elements of both.
    """
    dims = nest.outer if place == "outer" else nest.inner
    found = next((i for i, pair in enumerate(pairwise(dims)) if _can_merge(nest, *pair)), None)
    if found is None:
        return nest
    (gone, count), (kept, size) = dims[found : found + 2]
    dims = (*dims[:found], (kept, sympy.expand(count * size)), *dims[found + 2 :])

    def offset_of(load: Load) -> tuple[sympy.Expr]:
        return (sympy.expand(load.index[0].xreplace({gone: sympy.Integer(0)})),)

    statements = tuple(one.with_index(offset_of) for one in nest.statements)
    outer, inner = (dims, nest.inner) if place == "outer" else (nest.outer, dims)
    return _merge_dims(Nest(outer, inner, statements), place)


def _can_merge(
    nest: Nest, first: tuple[sympy.Symbol, sympy.Expr], second: tuple[sympy.Symbol, sympy.Expr]
) -> bool:
    pair = {first[0], second[0]}
    parts = [part for one in nest.statements for part in walk_expressions(one.body)]
    if any(isinstance(one, IndexValue) and one.index.free_symbols & pair for one in parts):
        return False
    for offset in set(nest.offsets):
        if not offset.free_symbols & pair:
            continue
        factors = offset.coeff(first[0]), offset.coeff(second[0])
        rest = offset - factors[0] * first[0] - factors[1] * second[0]
        if sympy.expand(rest).free_symbols & pair:
            return False
        if sympy.expand(factors[0] - factors[1] * second[1]) != 0:
            return False
    return True


def runs_along_outer(nest: Nest) -> bool:
    """Return whether memory is contiguous along the last outer dim rather than the last inner one.

    A sum over the rows of a matrix is an example.
    """
    if not nest.inner or not nest.outer:
        return False
    outer, inner = nest.outer[-1][0], nest.inner[-1][0]
    votes = 0
    for offset in nest.offsets:
        if offset.has(inner):
            votes += (offset.coeff(outer) == 1) - (offset.coeff(inner) == 1)
    return votes > 0


def find_levels(nest: Nest) -> dict[str, int]:
    """Return the level of each member: how many loops over the inner dims must end before it."""
    levels: dict[str, int] = {}
    phase = {one.member.name: one.member.phase for one in nest.statements}
    for statement in nest.statements:
        reads = [name for name in statement.member.loop.reads if name in levels]
        levels[statement.member.name] = max(
            (levels[name] + (phase[name] == "reduction") for name in reads), default=0
        )
    return levels
