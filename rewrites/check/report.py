"""From notes of the interpreter to findings."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fullgraph.rewrites.check.codes import code_of
from fullgraph.rewrites.check.constructs import Row, Table
from fullgraph.rewrites.check.finding import Certainty, Finding, Fix
from fullgraph.rewrites.check.interpreter.machine import Note
from fullgraph.rewrites.check.messages import message_of
from fullgraph.rewrites.check.project import Module

Span = tuple[int, int, int, int]


@dataclass(frozen=True)
class Found:
    """A finding with the node that it is about."""

    finding: Finding
    node: ast.expr | ast.stmt
    module: Module

    def with_fix(self, fix: Fix) -> Found:
        """Return the same with a fix."""
        return replace(self, finding=replace(self.finding, fix=fix))


def findings_of(notes: Iterable[Note], table: Table, checked: Iterable[Module]) -> list[Found]:
    """Return the findings for the notes whose construct is a cause, one for each expression."""
    modules = set(checked)
    found: list[tuple[Note, Row]] = []
    for note in notes:
        row = table.find(note.construct)
        if row is not None and note.function.module in modules:
            found.append((note, row))
    places: dict[tuple[int, Span, str], tuple[Note, Row]] = {}
    for note, row in found:
        key = (id(note.function.module), span_of(note.node), row.category)
        old = places.get(key)
        if old is None or (note.proved, len(row.modes)) > (old[0].proved, len(old[1].modes)):
            places[key] = (note, row)
    return [_found(note, row) for note, row in _without_consequences(list(places.values()))]


def _without_consequences(
    pairs: list[tuple[Note, Row]],
) -> Iterator[tuple[Note, Row]]:
    """Yield the notes, without those about a number or shape that another finding is inside of."""
    spans: dict[int, list[Span]] = {}
    for note, row in pairs:
        if "default" in row.modes:
            spans.setdefault(id(note.function.module), []).append(span_of(note.node))
    for note, row in pairs:
        if "default" not in row.modes:
            own = span_of(note.node)
            others = spans.get(id(note.function.module), ())
            if any(inside != own and _contains(own, inside) for inside in others):
                continue
            if any(inside == own for inside in others):
                continue
        yield note, row


def _contains(outer: Span, inner: Span) -> bool:
    return outer[:2] <= inner[:2] and inner[2:] <= outer[2:]


def span_of(node: ast.expr | ast.stmt) -> Span:
    """Return the span of a node; of a compound statement, its first line."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.With | ast.For | ast.While):
        return node.lineno, node.col_offset, node.lineno, node.col_offset + 1
    return (
        node.lineno,
        node.col_offset,
        node.end_lineno or node.lineno,
        node.end_col_offset or node.col_offset,
    )


def _found(note: Note, row: Row) -> Found:
    module = note.function.module
    line, column, end_line, end_column = span_of(note.node)
    cell, shown = module.source.place(line)
    text = segment(module, (line, column, end_line, end_column))
    return Found(
        Finding(
            code=code_of(row.category),
            file=module.source.name,
            line=shown,
            column=column,
            end_line=shown + end_line - line,
            end_column=end_column,
            message=message_of(row.category, text, _mask_of(note.node, module)),
            certainty=Certainty.PROVED if note.proved else Certainty.LIKELY,
            category=row.category,
            function=note.function.qualified,
            modes=row.modes,
            cell=cell,
        ),
        note.node,
        module,
    )


def segment(module: Module, span: Span) -> str:
    """Return the text of a span."""
    lines = [one.encode() for one in module.lines[span[0] - 1 : span[2]]]
    if not lines:
        return ""
    lines[-1] = lines[-1][: span[3]]
    lines[0] = lines[0][span[1] :]
    return b"\n".join(lines).decode(errors="replace")


def _mask_of(node: ast.AST, module: Module) -> str:
    """Return the text of a subscript's index if it is short."""
    if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Tuple | ast.Slice):
        return ""
    text = " ".join(segment(module, span_of(node.slice)).split())
    return text if len(text) <= 30 else ""
