"""One cause as a block of text: its place, source, sentence and advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from fullgraph.diagnose.explanation_data import Advice, Cause
from fullgraph.diagnose.report import wording
from fullgraph.diagnose.report.layout import fold_stack
from fullgraph.diagnose.report.marked_source import Line, source_lines


def text(content: str, style: str = "") -> Text:
    """Return `content` as text without markup or control characters."""
    return Text(wording.printable(content), style=style, overflow="fold")


def block(cause: Cause, tried: bool = True) -> RenderableType:
    """Return all of `cause`; `tried` says whether `fullgraph=True` was tried."""
    return Group(*_block_parts(cause, tried))


def _block_parts(cause: Cause, tried: bool) -> Iterator[RenderableType]:
    """Yield the title, place, facts, source and advice of a cause."""
    colour = "yellow" if cause.frame == "resumed" else "red"
    gb_id = f" · {cause.gb_id}" if cause.gb_id else ""
    name = text(f" · {cause.category}", "bold")
    title = Text.assemble(text(cause.id, f"bold {colour}"), name, text(gb_id, "dim"))
    yield Rule(title, align="left", style="dim")
    where = wording.format_position(cause.position)
    yield text(f"{where} · {cause.module_path}" if cause.module_path else where, "cyan")
    yield text(" · ".join(wording.describe_facts(cause, tried)), "dim")
    yield Padding(SourceView(cause), (1, 0))
    yield text(cause.message)
    if cause.detail and cause.detail != cause.message:
        yield text(cause.detail, "dim")
    calls = fold_stack(cause)
    if calls:
        yield text("Called from", "dim")
        yield Padding(Group(*(text(call, "dim") for call in calls)), (0, 0, 0, 2))
    yield from tips(cause.advice)
    if cause.consequences:
        yield Padding(text("Because of it", "bold"), (1, 0, 0, 0))
    for consequence in cause.consequences:
        yield Padding(text(consequence), (0, 0, 0, 2))


def tips(advice: Sequence[Advice]) -> list[RenderableType]:
    """Return the numbered advice, tested source changes first."""
    if not advice:
        return []
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(justify="right", overflow="fold")
    grid.add_column(overflow="fold", ratio=1)
    for number, one in enumerate(wording.rank_advice(advice), 1):
        tag = wording.describe_evidence(one)
        rows = [text(one.text).append_text(text(f" ({tag})", "green" if one.modes else "dim"))]
        rows += [*_code_lines("-", one.before, "red"), *_code_lines("+", one.after, "green")]
        if one.trap:
            rows.append(text(f"Mind: {one.trap}", "yellow"))
        grid.add_row(text(f"{number}."), Group(*rows))
    return [Padding(Text("Try", style="bold"), (1, 0, 0, 0)), grid]


def _code_lines(sign: str, code: str, style: str) -> Iterable[Text]:
    """Return the lines of an example, each after its sign "-" or "+"."""
    return [text(f"{sign} {line}", style) for line in code.rstrip("\n").split("\n") if code]


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
    """Return the parts of `line` that fit `room` columns; the expression's start is kept."""
    before, marked, after = line.parts
    if cell_len(before + marked) > room:
        spare = max(room // 4, room - 1 - cell_len(marked))
        kept = min(len(before), 4 * room)
        while kept and cell_len(before[-kept:]) > spare:
            kept -= 1
        if kept < len(before):
            before = "…" + (before[-kept:] if kept > 1 else "")
    marked = _cut_part(marked, room - cell_len(before))
    return before, marked, _cut_part(after, room - cell_len(before + marked))


def _cut_part(part: str, room: int) -> str:
    """Return `part`, cut with "…" to `room` columns."""
    if cell_len(part) <= room:
        return part
    part = part[: 4 * max(room, 1)]
    while part and cell_len(part) > room - 1:
        part = part[:-1]
    return part + "…" if room > 0 else ""
