"""Convert notes of the interpreter to places, and places to findings."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from fullgraph.rewrites.check.codes import code_of
from fullgraph.rewrites.check.constructs import Row, Table
from fullgraph.rewrites.check.finding import Certainty, Finding, Fix
from fullgraph.rewrites.check.interpreter.machine import Note
from fullgraph.rewrites.check.interpreter.recompiles import without_unread
from fullgraph.rewrites.check.messages import message_of
from fullgraph.rewrites.check.project import Module
from fullgraph.rewrites.check.selection import noqa_comments

Span = tuple[int, int, int, int]


@dataclass(frozen=True, order=True)
class Place:
    """Place of a construct: an expression or statement that may break the graph or recompile.

    It holds no syntax tree, so it can be sent to another process and stored.
    """

    file: str
    """Absolute path."""
    span: Span
    """First line and column, last line and column, in the file or the notebook's joined cells."""
    construct: str
    """Key of the table of constructs: "branch.if", "method:item"."""
    proved: bool
    """Whether the values are known; else they are guessed."""
    cell: int
    """Number of the notebook's code cell, from 1; 0 in a Python file."""
    line: int
    """First line, counted from the start of the cell or file."""
    function: str
    """Qualified name of the function that contains it."""
    text: str
    """Source text."""
    mask: str
    """Text of the index, if it is a subscript with one short index; else ""."""
    comments: tuple[str, ...] = ()
    """`# noqa` comments on its first and last line."""


@dataclass(frozen=True)
class Found:
    """A finding with its place."""

    finding: Finding
    place: Place

    def with_fix(self, fix: Fix | None) -> Found:
        """Return a copy whose finding has the fix `fix`."""
        return replace(self, finding=replace(self.finding, fix=fix))


def places_of(notes: Iterable[Note], table: Table) -> tuple[Place, ...]:
    """Return the places of those notes whose construct breaks the graph or recompiles, sorted.

    `table` says what each construct does.
    """
    causes = (note for note in without_unread(notes) if table.find(note.construct) is not None)
    return tuple(sorted({_place_of(note) for note in causes}))


def findings_of(places: Iterable[Place], table: Table, names: Mapping[str, str]) -> list[Found]:
    """Return the findings for `places`, one for each expression and category.

    `names` maps the absolute path of each checked file to the path to show; places in other files
    are ignored.
    """
    kept: dict[tuple[str, Span, str], tuple[Place, Row]] = {}
    for place in places:
        row = table.find(place.construct)
        if row is None or place.file not in names:
            continue
        key = (place.file, place.span, row.category)
        old = kept.get(key)
        if old is None or (place.proved, len(row.modes)) > (old[0].proved, len(old[1].modes)):
            kept[key] = (place, row)
    pairs = _without_consequences(list(kept.values()))
    return [_found(place, row, names[place.file]) for place, row in pairs]


def _without_consequences(pairs: list[tuple[Place, Row]]) -> Iterator[tuple[Place, Row]]:
    """Yield those of the pairs that are no consequence of another pair, in order.

    A consequence breaks with `fullgraph=True` only, and its expression, or a part of it, is a place
    that breaks with `fullgraph=False` too.
    """
    spans: dict[str, list[Span]] = {}
    for place, row in pairs:
        if "default" in row.modes:
            spans.setdefault(place.file, []).append(place.span)
    for place, row in pairs:
        if "default" not in row.modes and any(
            inside == place.span or _contains(place.span, inside)
            for inside in spans.get(place.file, ())
        ):
            continue
        yield place, row


def _contains(outer: Span, inner: Span) -> bool:
    return outer[:2] <= inner[:2] and inner[2:] <= outer[2:]


def span_of(node: ast.expr | ast.stmt | ast.arg) -> Span:
    """Return the first line and column, and the last line and column, of a node.

    Of a `def`, `class`, `with` or loop it is the first character only.
    """
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.With | ast.For | ast.While):
        return node.lineno, node.col_offset, node.lineno, node.col_offset + 1
    return (
        node.lineno,
        node.col_offset,
        node.end_lineno or node.lineno,
        node.end_col_offset or node.col_offset,
    )


def _place_of(note: Note) -> Place:
    module = note.function.module
    span = span_of(note.node)
    cell, shown = module.source.place(span[0])
    return Place(
        file=str(module.source.path.absolute()),
        span=span,
        construct=note.construct,
        proved=note.proved,
        cell=cell or 0,
        line=shown,
        function=note.function.qualified,
        text=segment(module, span),
        mask=_index_code(note.node, module),
        comments=noqa_comments(module.lines, span[0], span[2]),
    )


def _found(place: Place, row: Row, name: str) -> Found:
    first, column, last, end_column = place.span
    finding = Finding(
        code=code_of(row.category),
        file=name,
        line=place.line,
        column=column,
        end_line=place.line + last - first,
        end_column=end_column,
        message=message_of(row.category, place.text, place.mask),
        certainty=Certainty.PROVED if place.proved else Certainty.LIKELY,
        category=row.category,
        function=place.function,
        modes=row.modes,
        cell=place.cell or None,
    )
    return Found(finding, place)


def segment(module: Module, span: Span) -> str:
    """Return the source text of a span."""
    lines = [one.encode() for one in module.lines[span[0] - 1 : span[2]]]
    if not lines:
        return ""
    lines[-1] = lines[-1][: span[3]]
    lines[0] = lines[0][span[1] :]
    return b"\n".join(lines).decode(errors="replace")


def _index_code(node: ast.AST, module: Module) -> str:
    """Return the code of a subscript's index: "m" for `x[m]`.

    "" if `node` is no subscript, or the index is longer than 30 characters, a tuple or a slice.
    """
    if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Tuple | ast.Slice):
        return ""
    text = " ".join(segment(module, span_of(node.slice)).split())
    return text if len(text) <= 30 else ""
