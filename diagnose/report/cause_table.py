"""Table of causes as text: two lines a row, the second of which is the edit to make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fullgraph.compiler.sources import short_path
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.diagnose.report.cause_block import colour_of, cut_part, text
from fullgraph.diagnose.report.rows import Row, RowRemedy
from fullgraph.diagnose.report.wording import printable

_HEADER = ("", "line", "expression", "what it is", "effect")
_WIDEST = (10, 22, 200, 22, 20)
_GAP = 2
_NARROW = 60
"""Width in columns below which the fields of a row become one wrapped line."""
_REMEDY_LINES = 2
_FEW_ROWS = 6
"""Number of rows up to which an edit of a few lines is shown as code."""
_SHORT_PATH = 12


def draw_table(rows: Sequence[Row], width: int) -> list[list[RenderableType]]:
    """Return the header and then each row, each as a list of lines of `width` columns."""
    fields = [_row_fields(row) for row in rows]
    remedies = [draw_remedy(row.remedy, width, len(rows)) for row in rows]
    if width < _NARROW:
        pairs = zip(fields, remedies, strict=True)
        return [[], *([_join_fields(cells), *remedy] for cells, remedy in pairs)]
    widths = _column_widths([_HEADER, *fields], width)
    drawn: list[list[RenderableType]] = [[_draw_line(_HEADER, widths, ["dim"] * len(_HEADER))]]
    for row, cells, remedy in zip(rows, fields, remedies, strict=True):
        styles = [f"bold {colour_of(row.first)}", "cyan", "", "", "dim"]
        drawn.append([_draw_line(cells, widths, styles), *remedy])
    return drawn


def draw_remedy(remedy: RowRemedy, width: int, row_count: int = 1) -> list[RenderableType]:
    """Return the lines below a row of a table of `row_count` rows: the edit and its condition."""
    return [*_remedy_lines(remedy, width, row_count), *_condition_line(remedy, width, row_count)]


def _join_fields(fields: Sequence[str]) -> Text:
    return text(" · ".join(filter(None, fields)), "bold")


def _row_fields(row: Row) -> tuple[str, ...]:
    """Return the fields of a row: causes, place, expression, category and effect."""
    cause = row.first
    expression = cause.expression or f"({cause.position.function})"
    names = name_causes(row.causes)
    fields = (names, place_of(cause), expression, cause.category, row.effect)
    return tuple(" ".join(printable(field).split()) for field in fields)


def name_causes(causes: Sequence[Cause]) -> str:
    """Return "C2" for one cause, "C2, C5" for two, "C2 + 3" for four."""
    ids = [cause.id for cause in causes]
    return ", ".join(ids) if len(ids) <= 2 else f"{ids[0]} + {len(ids) - 1}"


def place_of(cause: Cause) -> str:
    """Return "net.py:14", with the folders of the path if they are short."""
    path = short_path(cause.position.file)
    name = path if len(path) <= _SHORT_PATH else PurePath(path).name
    return f"{name}:{cause.position.line}"


def _column_widths(table: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return column widths that fit `width`, narrowing the widest columns first."""
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
    """Return the cells as one line of the table."""
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


def _remedy_lines(remedy: RowRemedy, width: int, row_count: int) -> list[RenderableType]:
    """Return the remedy and its rule as at most two lines to print.

    In a table of few rows (`row_count`), a remedy of several lines of code is printed whole if no
    line is wider than `width` columns.
    """
    indent = _indent(width)
    label, style = f"{remedy.label}: ", "green" if remedy.is_code else ""
    lines = printable(remedy.text).split("\n")
    line = width - indent
    if len(lines) > 1 and row_count <= _FEW_ROWS and max(map(cell_len, lines)) + len(label) <= line:
        code = f"\n{' ' * len(label)}".join(lines)
        return _draw_remedy(label, code, style, remedy.tag, line, indent)
    content, tag = " ".join(lines), remedy.tag if remedy.is_code else remedy.long_tag
    room = _REMEDY_LINES * (line - 8) - cell_len(label + tag)
    if remedy.is_code and remedy.why and (len(lines) > 1 or cell_len(content) > room):
        content, style, tag = printable(remedy.why).replace("\n", " "), "", remedy.long_tag
    return _draw_remedy(label, cut_part(content, max(room, 8)), style, tag, line, indent)


def _condition_line(remedy: RowRemedy, width: int, row_count: int) -> list[RenderableType]:
    """Return the condition of an edit as a line to print: "only if nobody needs this output".

    The list is empty if the edit has no condition, or if the table has many rows (`row_count`).
    """
    if not remedy.condition or row_count > _FEW_ROWS:
        return []
    indent = _indent(width)
    shown = cut_part(printable(remedy.condition), width - indent)
    return [Padding(text(shown, "dim"), (0, 0, 0, indent))]


def _indent(width: int) -> int:
    """Return by how many columns to indent the second and later lines of a table row.

    `width` is that of the whole table, in columns.
    """
    return 4 if width >= _NARROW else min(2, max(0, width - 8))


def _draw_remedy(
    label: str, content: str, style: str, tag: str, width: int, indent: int
) -> list[RenderableType]:
    """Return a remedy as "edit: x = y.clone()  (FG201, safe)": label, content and tag.

    The tag comes on the next line if it does not fit on the same one. `style` is the style of the
    content; `width` and `indent` are in columns.
    """
    used = cell_len(f"{label}{content}".rpartition("\n")[2])
    gap = "\n" if used <= width < used + 4 + cell_len(tag) else "  "
    shown = Text.assemble((label, "dim"), (content, style), overflow="fold")
    if tag:
        shown.append(f"{gap}({tag})", "dim")
    return [Padding(shown, (0, 0, 0, indent))]
