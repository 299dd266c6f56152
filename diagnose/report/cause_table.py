"""Table of causes as text: two lines a row, the second of which is the edit to make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fullgraph.diagnose.explanation_data import Cause
from fullgraph.diagnose.report.cause_block import colour_of, cut_part, text
from fullgraph.diagnose.report.rows import Remedy, Row
from fullgraph.diagnose.report.wording import printable, short_path

_HEADER = ("", "line", "expression", "what it is", "effect")
_WIDEST = (10, 22, 200, 22, 20)
_GAP = 2
_NARROW = 60
"""Columns below which the fields of a row are one wrapped line."""
_REMEDY_LINES = 2
_SHORT_PATH = 12


def draw_table(rows: Sequence[Row], width: int) -> list[list[RenderableType]]:
    """Return the header and then each row, as the lines that it takes in `width` columns."""
    fields = [_row_fields(row) for row in rows]
    if width < _NARROW:
        pairs = zip(fields, rows, strict=True)
        return [[], *([_join_fields(f), *_remedy_lines(r.remedy, width)] for f, r in pairs)]
    widths = _column_widths([_HEADER, *fields], width)
    header: list[RenderableType] = [_draw_line(_HEADER, widths, ["dim"] * len(_HEADER))]
    drawn = [header]
    for row, cells in zip(rows, fields, strict=True):
        styles = [f"bold {colour_of(row.first)}", "cyan", "", "", "dim"]
        drawn.append([_draw_line(cells, widths, styles), *_remedy_lines(row.remedy, width)])
    return drawn


def _join_fields(fields: Sequence[str]) -> Text:
    return text(" · ".join(filter(None, fields)), "bold")


def _row_fields(row: Row) -> tuple[str, ...]:
    cause = row.first
    expression = cause.expression or f"({cause.position.function})"
    names = name_causes(row.causes)
    fields = (names, place_of(cause), expression, cause.category, row.effect)
    return tuple(" ".join(printable(field).split()) for field in fields)


def name_causes(causes: Sequence[Cause]) -> str:
    """Return "C2", "C2, C5" or "C2 + 3"."""
    ids = [cause.id for cause in causes]
    return ", ".join(ids) if len(ids) <= 2 else f"{ids[0]} + {len(ids) - 1}"


def place_of(cause: Cause) -> str:
    """Return "net.py:14"; the path if it is short."""
    path = short_path(cause.position.file)
    name = path if len(path) <= _SHORT_PATH else PurePath(path).name
    return f"{name}:{cause.position.line}"


def _column_widths(table: Sequence[Sequence[str]], width: int) -> list[int]:
    columns = list(zip(*table, strict=True))
    widths = [
        min(most, max(map(cell_len, column))) for column, most in zip(columns, _WIDEST, strict=True)
    ]
    over = sum(widths) + _GAP * (len(widths) - 1) - width
    for index, least in ((2, 18), (3, 14), (1, 14), (2, 8)):
        cut = max(0, min(over, widths[index] - least))
        widths[index] -= cut
        over -= cut
    return widths


def _draw_line(cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> Text:
    line = Text(no_wrap=True, overflow="crop")
    for index, (cell, room, style) in enumerate(zip(cells, widths, styles, strict=True)):
        # A long place is cut in front: its end has the line.
        shown = cut_part(cell, room) if index != 1 else _cut_front(cell, room)
        line.append(shown, style)
        line.append(" " * (room - cell_len(shown) + _GAP))
    line.rstrip()
    return line


def _cut_front(cell: str, room: int) -> str:
    return cell if cell_len(cell) <= room else "…" + cut_part(cell[::-1], room)[-2::-1]


def _remedy_lines(remedy: Remedy, width: int) -> list[RenderableType]:
    """Return the edit in at most two lines, its rule after it."""
    indent = 4 if width >= _NARROW else min(2, max(0, width - 8))
    content, style = printable(remedy.text).replace("\n", " "), "green" if remedy.is_code else ""
    tag = f"({remedy.tag})" if remedy.tag else ""
    label = f"{remedy.label}: "
    line = width - indent
    room = _REMEDY_LINES * (line - 8) - cell_len(label + tag)
    if cell_len(content) > room and remedy.is_code and remedy.why:
        content, style = printable(remedy.why).replace("\n", " "), ""
    content = cut_part(content, max(room, 8))
    used = cell_len(label + content)
    gap = "\n" if used <= line < used + 2 + cell_len(tag) else "  "
    shown = Text.assemble((label, "dim"), (content, style), (gap + tag if tag else "", "dim"))
    shown.overflow = "fold"
    return [Padding(shown, (0, 0, 0, indent))]
