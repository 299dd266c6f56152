"""Conditions of a program, observed while it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.sources import ORIGINAL, FunctionEdit, read_source
from fullgraph.rewrites.proof.margins import Margins

_LOOPS = ast.For | ast.AsyncFor | ast.While
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Decision:
    """One evaluation of a condition."""

    value: bool
    reads: int
    """How many reads `Margins` had noted, if it was active."""
    is_of_data: bool
    """Whether a tensor had been read before, or is the condition."""


@dataclass
class Tape:
    """The evaluations of one condition in a run."""

    decisions: list[Decision] = field(default_factory=list)
    margins: Margins | None = None
    """What follows the reads of the run; None if nothing does."""

    @property
    def values(self) -> tuple[bool, ...]:
        """The values that the condition had, in order."""
        return tuple(one.value for one in self.decisions)

    def record(self, value: object) -> object:
        """Record the truth of a condition, or of each element of a tensor, and return it."""
        if isinstance(value, torch.Tensor) and value.numel() != 1:
            values = [bool(side) for side in value.bool().flatten().unique()]
        else:
            values = [bool(value)]
        reads, count = (len(self.margins.reads), self.margins.count) if self.margins else (0, 0)
        is_of_data = count > 0 or isinstance(value, torch.Tensor)
        self.decisions += [Decision(one, reads, is_of_data) for one in values]
        return value


def ends_loop(test: Position) -> bool:
    """Return whether a condition decides whether the loop around it goes on."""
    source = read_source(test.file)
    node = source.node(test) if source else None
    if source is None or node is None:
        return False
    around = [node, *source.ancestors(node)]
    function = next((n for n, one in enumerate(around) if isinstance(one, _FUNCTIONS)), len(around))
    for number, one in enumerate(around[:function]):
        if isinstance(one, ast.If) and around[number - 1] is one.test:
            leaves = [block[-1] for block in (one.body, one.orelse) if block]
            looped = any(isinstance(loop, _LOOPS) for loop in around[number:function])
            return looped and any(isinstance(last, ast.Break | ast.Return) for last in leaves)
    return False


def record_conditions(tests: Sequence[Position]) -> tuple[list[FunctionEdit], list[Tape]]:
    """Return edits that record the values of conditions, and the tapes that they write."""
    tapes = [Tape() for _ in tests]
    edits = []
    for number, (test, tape) in enumerate(zip(tests, tapes, strict=True)):
        name = f"_fullgraph_side_{number}"
        edits.append(FunctionEdit(test, f"{name}({ORIGINAL})", {name: tape.record}))
    return edits, tapes


def find_condition(test: Position, before: str, after: str) -> list[Position]:
    """Return where the condition `test` of the text `before` is computed in the text `after`.

    That is the same expression in a function of the same name, with or without `bool(…)` or
    `.item()`.
    """
    asked = next(
        (one for one in _expressions(before, test.file) if one[1].extent == test.extent), None
    )
    if asked is None:
        return []
    wanted, found = ast.dump(_bare(asked[0])), list[Position]()
    for node, place in _expressions(after, test.file):
        if ast.dump(_bare(node)) == wanted and not any(map(place.is_inside, found)):
            found.append(place)
    return [place for place in found if place.function == asked[1].function] or found


def force_conditions(
    places: Sequence[Position], value: bool
) -> tuple[list[FunctionEdit], list[object]]:
    """Return edits by which the conditions at `places` are computed, and then are `value`.

    The list holds what they computed: it stays empty if the program computes none of them.
    """
    computed: list[object] = []

    def force(one: object) -> object:
        computed.append(one)
        return torch.full_like(one, value) if isinstance(one, torch.Tensor) else value

    name = f"_fullgraph_force_{value}"
    return [FunctionEdit(place, f"{name}({ORIGINAL})", {name: force}) for place in places], computed


def _expressions(text: str, file: str) -> Iterator[tuple[ast.expr, Position]]:
    """Yield the expressions of a text, outer ones first, each with its place."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[ast.expr, Position]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".lstrip(".")
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            span = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
            yield node, Position(file, *span, function)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(ast.parse(text), "")


def _bare(node: ast.expr) -> ast.expr:
    """Return an expression without `bool(…)` and `.item()` around it."""
    match node:
        case ast.Call(ast.Name("bool" | "float" | "int"), [inner], []):
            return _bare(inner)
        case ast.Call(ast.Attribute(inner, "item"), [], []):
            return _bare(inner)
    return node
