"""One cause as a block of text: its source, what it is, why it breaks, and the edit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.style import Style
from rich.text import Text

from fullgraph.compiler.errors import contain
from fullgraph.diagnose.explanation_data import Advice, Cause, Edit
from fullgraph.diagnose.report import wording
from fullgraph.diagnose.report.edit_diff import DiffLine, diff_lines
from fullgraph.diagnose.report.layout import fold_stack
from fullgraph.diagnose.report.marked_source import Line, source_lines
from fullgraph.diagnose.report.rows import best_edit, describe_edit

_SIGNS = {"-": "red", "+": "green", "…": "dim"}


def text(content: str, style: str = "") -> Text:
    """Return `content` as text without markup or control characters."""
    return Text(wording.printable(content), style=style, overflow="fold")


def colour_of(cause: Cause) -> str:
    """Return "yellow" if the frame resumes after the break, else "red"."""
    return "yellow" if cause.frame == "resumed" else "red"


def draw_cause(cause: Cause, fullgraph_tried: bool = True) -> RenderableType:
    """Return all details of a cause, to be printed.

    `fullgraph_tried`: whether the program was also compiled with `fullgraph=True`. If it was not,
    the report does not say whether the cause exists in that mode.
    """

    def whole() -> RenderableType:
        return Group(*_block_parts(cause, fullgraph_tried))

    return contain(whole, lambda error: text(f"{cause.id} cannot be shown: {error}"))


def _block_parts(cause: Cause, fullgraph_tried: bool) -> Iterator[RenderableType]:
    """Yield the heading of a cause, its source, its message, and its edits or advice.

    `fullgraph_tried`: whether the program was also compiled with `fullgraph=True`.
    """
    title = Text.assemble(
        text(cause.id, f"bold {colour_of(cause)}"), text(f" · {cause.category}", "bold")
    )
    if cause.gb_id:
        title.append(" · ", "dim").append_text(_link_gb_id(cause))
    yield Rule(title, align="left", style="dim")
    where = wording.format_position(cause.position)
    yield text(f"{where} · {cause.module_path}" if cause.module_path else where, "cyan")
    yield text(" · ".join(wording.describe_facts(cause, fullgraph_tried)), "dim")
    yield Padding(SourceView(cause), (1, 0))
    yield text(cause.message)
    if cause.detail and cause.detail != cause.message:
        yield text(f"Why: {cause.detail}", "dim")
    for consequence in cause.consequences:
        yield text(f"Because of it: {consequence}")
    yield from edit_parts(cause)
    calls = fold_stack(cause)
    if calls:
        yield Padding(text(f"Called from {', '.join(calls)}", "dim"), (1, 0, 0, 0))


def _link_gb_id(cause: Cause) -> Text:
    """Return the id of the break, such as "GB0170", as a hyperlink to the page about it.

    Without such a page, the id is plain text.
    """
    shown = text(cause.gb_id or "", "dim")
    if wording.link_of(cause):
        shown.stylize(Style(link=wording.link_of(cause)))
    return shown


def edit_parts(cause: Cause) -> Iterator[RenderableType]:
    """Yield the best edit with its diff, then one line for each other edit.

    For a cause without edits, yield its advice.
    """
    edit = best_edit(cause)
    if edit is None:
        yield from tips(cause.advice)
        return
    remedy = describe_edit(edit, cause)
    label = text(f"{remedy.label.capitalize()} ", "bold")
    heading = Text.assemble(label, text(f"({remedy.tag}) ", "dim"), text(edit.why))
    yield Padding(heading, (1, 0, 1, 0))
    yield from (text(setting, "green") for setting in edit.settings)
    if edit.diff:
        yield Padding(Group(*map(_draw_diff_line, diff_lines(edit, cause))), (0, 0, 1, 2))
    for assumption in edit.assumes:
        yield text(f"Caveat: it assumes that {assumption}.", "yellow")
    if edit.tried:
        yield text(f"Tried on your model: {edit.tried}", "green")
    yield from _other_edits(cause, edit)
    yield text(f"More: `fullgraph rule {edit.rule}`", "dim")


def _draw_diff_line(line: DiffLine) -> Text:
    """Return a line of a diff with its number, coloured by its sign."""
    number = f"{line.number:>5} " if line.number is not None else " " * 6
    row = text(f"{line.sign} {line.text}", _SIGNS.get(line.sign, "dim"))
    return Text.assemble((number, "dim"), row)


def _other_edits(cause: Cause, best: Edit) -> Iterator[Text]:
    """Yield a line for each edit except `best`."""
    for edit in cause.edits:
        if edit is not best:
            other = describe_edit(edit, cause)
            style = "green" if other.is_code else ""
            yield Text.assemble(text(f"Or ({other.tag}) "), text(other.text, style))


def tips(advice: Sequence[Advice]) -> list[RenderableType]:
    """Return lines to print for `advice`, with its caveats; changes of code come first.

    The list is empty if there is no advice.
    """
    rows: list[RenderableType] = []
    for number, one in enumerate(wording.rank_advice(advice)):
        rows.append(Text.assemble(text("Or " if number else "Try ", "bold"), text(one.text)))
        if one.trap:
            rows.append(Padding(text(f"Caveat: {one.trap}", "yellow"), (0, 0, 0, 2)))
    return [Padding(Group(*rows), (1, 0, 0, 0))] if rows else []


class SourceView:
    """Numbered source lines with carets under the expression, cut to the available width."""

    def __init__(self, cause: Cause) -> None:
        self.cause = cause

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        shown = source_lines(self.cause)
        if not shown:
            yield text(self.cause.expression or "The source cannot be read.", "dim")
            return
        digits = max(len(str(line.number)) for line in shown)
        room = max(options.max_width - digits - 5, 8)
        for line in shown:
            before, marked, after = _cut_line(line, room)
            row = Text(no_wrap=True, overflow="crop")
            row.append("▸ " if line.hit else "  ", "bold red")
            row.append(f"{line.number:>{digits}} │ ", "dim")
            row.append(before, "" if line.hit else "dim")
            row.append(marked, "bold red")
            row.append(after, "" if line.hit else "dim")
            yield row
            if marked:
                caret = Text(no_wrap=True, overflow="crop")
                caret.append(" " * (digits + 2) + " │ ", "dim")
                caret.append(" " * cell_len(before) + "^" * max(1, cell_len(marked)), "bold red")
                yield caret


def _cut_line(line: Line, room: int) -> tuple[str, str, str]:
    """Return the text before, in and after the expression, cut to `room` columns in all.

    The start of the expression stays visible.
    """
    before, marked, after = line.parts
    if cell_len(before + marked) > room:
        spare = max(room // 4, room - 1 - cell_len(marked))
        kept = min(len(before), 4 * room)
        while kept and cell_len(before[-kept:]) > spare:
            kept -= 1
        if kept < len(before):
            before = "…" + (before[-kept:] if kept > 1 else "")
    marked = cut_part(marked, room - cell_len(before))
    return before, marked, cut_part(after, room - cell_len(before + marked))


def cut_part(part: str, room: int) -> str:
    """Return `part`, shortened to `room` columns with "…" at its end if it is longer."""
    if cell_len(part) <= room:
        return part
    part = part[: 4 * max(room, 1)]
    while part and cell_len(part) > room - 1:
        part = part[:-1]
    return part + "…" if room > 0 else ""
