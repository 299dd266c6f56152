"""Terminal renderer: an explanation in colour on a console, or as plain text in 80 columns.

The short form is one screen: verdict, strip of graphs, table of causes with the edit for each.
Details of the causes come after it where they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from fullgraph.compiler.errors import FullgraphError
from fullgraph.diagnose.explanation_data import (
    Advice,
    Crash,
    ExplanationData,
    GraphInfo,
    RecompileInfo,
)
from fullgraph.diagnose.report import wording
from fullgraph.diagnose.report.cause_block import draw_cause, edit_parts, text, tips
from fullgraph.diagnose.report.cause_table import draw_remedy, draw_table
from fullgraph.diagnose.report.layout import (
    EagerPart,
    Strip,
    graph_strips,
    graph_width,
    order_causes,
)
from fullgraph.diagnose.report.rows import cause_rows, find_remedy

WIDTH = 80
"""Columns of the plain text."""
LINES = 60
"""Maximum number of lines of the short form, if the console has 80 columns or more."""
HINT = "Details: `-v` or `--cause C1`; in Python, `report.text(verbose=True)`."
FIX_HINT = "To try, prove and apply the edits: `fullgraph fix`."
_OUTPUT_LINES = 20
_STRIP_GRAPHS = 60
_FEW = 3
"""Number of recompiles, fallbacks, crashes and notes each that the short form shows."""
_MOODS = {"bad": "red", "mixed": "yellow", "good": "green"}
_ASCII = str.maketrans("▇░│─┊·…–×→▸µ", "#:|-|..-x>>u")


def plain(explanation: ExplanationData, verbose: bool = False, cause: str | None = None) -> str:
    """Return the short report as text without colour, at most 80 columns wide.

    With `verbose`, it holds all details of all causes. With `cause`, an id such as "C3", it is the
    verdict and the details of that cause.
    """
    return draw_plain(lambda console: render(explanation, console, verbose, cause))


def draw_plain(draw: Callable[[Console], None]) -> str:
    """Return what `draw` draws as text without colour, at most 80 columns wide."""
    file = StringIO()
    # In a notebook, rich would display the text instead of writing it to the file.
    console = Console(
        file=file,
        width=WIDTH,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        tab_size=4,
    )
    draw(console)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().split("\n"))


def render(
    explanation: ExplanationData,
    console: Console,
    verbose: bool = False,
    cause: str | None = None,
) -> None:
    """Draw `explanation` on `console`: the short form, with details of all causes if `verbose`.

    With `cause`, an id such as "C3", draw only the verdict and that cause. Raises FullgraphError
    if no cause has that id, after the short form, which lists those that there are.
    """
    tried = explanation.fullgraph.ok is not None
    if cause is not None:
        found = [one for one in explanation.causes if one.id.lower() == cause.lower()]
        if not found:
            show(console, *_short_form(explanation, console))
            raise FullgraphError(_no_such_cause(explanation, cause))
        show(
            console,
            *_verdict_lines(explanation, strips=False),
            Text(),
            *(draw_cause(c, tried) for c in found),
        )
    elif verbose:
        rows = [part for row in _table_rows(explanation, console) for part in row]
        details = [
            Padding(draw_cause(one, tried), (1, 0, 0, 2 * min(depth, 4)))
            for one, depth in order_causes(explanation.causes)
        ]
        show(console, *_verdict_lines(explanation), *rows, *details, *_other_sections(explanation))
    else:
        show(console, *_short_form(explanation, console))


def show(console: Console, *parts: RenderableType) -> None:
    """Print `parts` on `console`.

    If the console is not a terminal, trailing spaces are removed. Characters that its encoding
    lacks are replaced by similar ones.
    """
    encoding = console.encoding
    is_utf = encoding.lower().startswith("utf")
    if is_utf and console.is_terminal:
        console.print(Group(*parts))
        return
    with console.capture() as capture:
        console.print(Group(*parts))
    drawn = "\n".join(line.rstrip() for line in capture.get().split("\n"))
    if not is_utf:
        drawn = drawn.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    console.out(drawn, end="", highlight=False)


def _no_such_cause(explanation: ExplanationData, cause: str) -> str:
    """Return the error message for an unknown cause id."""
    ids = [one.id for one in explanation.causes]
    known = f"give one of {', '.join(ids[:9])}" if ids else "this report has no causes"
    return f"There is no cause {cause!r}: {known}{' …' if len(ids) > 9 else ''}."


def _short_form(e: ExplanationData, console: Console) -> list[RenderableType]:
    """Return the parts of the short report: verdict, table of causes, one or two lines a fact.

    If some rows of the table do not fit, a line says how many.
    """
    recompiles, rows = _recompile_lines(e, console.width), _table_rows(e, console)
    first = [Text(), *recompiles] if recompiles and _recompiles_lead(e) else []
    head = list(_verdict_lines(e, above=first))
    rest = list(_short_sections(e, [] if first else recompiles))
    left = LINES - _height(console, head + rest) - 1
    drawn: list[RenderableType] = []
    for number, row in enumerate(rows):
        height = _height(console, row)
        if left < height and console.width >= WIDTH:
            drawn.append(text(f"… and {wording.count(len(rows) - number, 'more row')}: -v", "dim"))
            break
        left -= height
        drawn += row
    return [*head, *drawn, *rest]


def _height(console: Console, parts: Sequence[RenderableType]) -> int:
    return len(console.render_lines(Group(*parts), pad=False)) if parts else 0


def _verdict_lines(
    e: ExplanationData, strips: bool = True, above: Sequence[RenderableType] = ()
) -> Iterator[RenderableType]:
    """Yield the verdict and a line if the report is incomplete; with `strips`, the graphs.

    What is `above` the graphs comes before them.
    """
    yield text(_on_one_line(e.verdict), f"bold {_MOODS[wording.mood_of(e)]}")
    if e.error and (e.causes or e.graphs):
        yield text("Not finished: what follows was found until then.", "bold red")
    elif not e.error and not e.complete:
        yield text("Still looking for hidden causes.", "dim")
    yield from above
    if strips and (e.causes or len(e.graphs) > 1):
        for strip in graph_strips(e, _STRIP_GRAPHS):
            yield Padding(_draw_strip(strip), (1, 0, 0, 0))


def _draw_strip(strip: Strip) -> Text:
    """Draw ▇▇▇|C1|░░▇▇: graphs and eager code, wider the more ops, with the causes between."""
    drawn = Text(overflow="fold")
    if strip.phase != "forward":
        drawn.append(f"{wording.printable(strip.phase)} ", "dim")
    after_graph = False
    for piece in strip.pieces:
        if isinstance(piece, GraphInfo):
            if after_graph:
                drawn.append("┊", "dim")
            drawn.append("▇" * graph_width(piece.ops), "cyan")
        elif isinstance(piece, EagerPart):
            drawn.append("░" * graph_width(piece.ops), "red")
        else:
            style = "bold yellow" if piece.frame == "resumed" else "bold red"
            drawn.append(f"|{wording.printable(piece.id)}|", style)
        after_graph = isinstance(piece, GraphInfo)
    if strip.left_out:
        drawn.append(f" … and {wording.count(strip.left_out, 'more graph')}", "dim")
    elif strip.pieces:
        drawn.append(f"  {wording.describe_ops(strip.graphs, strip.eager_ops)}".rstrip(), "dim")
    return drawn


def _table_rows(e: ExplanationData, console: Console) -> list[list[RenderableType]]:
    """Return the table of causes as a list of lines for each row, beginning with the header."""
    rows = cause_rows(e)
    if not rows:
        return []
    header, *others = draw_table(rows, console.width)
    title = [text(wording.DEFAULT_ONLY, "dim")] if e.fullgraph.ok else []
    return [[Text(), *title, *header], *others]


def _recompile_lines(e: ExplanationData, width: int) -> list[RenderableType]:
    """Return the lines on recompiles, each value with its best edit."""
    lines: list[RenderableType] = []
    for recompile in e.recompiles[:_FEW]:
        title = f"{wording.count(recompile.count, 'recompile')} of {recompile.function}"
        place, message = wording.recompile_place(recompile), wording.first_guard(recompile)
        lines.append(_format_fact(title, place, message))
        if recompile.edits or recompile.advice:
            lines += draw_remedy(find_remedy(recompile.as_cause()), width)
    return lines


def _recompiles_lead(e: ExplanationData) -> bool:
    """Return whether more compilations come from recompiles than from graph breaks."""
    breaks = sum(cause.events for cause in e.causes if not cause.hidden)
    return sum(recompile.count for recompile in e.recompiles) > breaks


def _short_sections(
    e: ExplanationData, recompiles: Sequence[RenderableType]
) -> Iterator[RenderableType]:
    """Yield the sections below the table: first `recompiles`, then a line or two for each fact."""
    lines: list[RenderableType] = [*recompiles]
    for fallback in e.fallbacks[:_FEW]:
        place = wording.format_place(fallback.file, fallback.line)
        because = f" Because of {fallback.cause}." if fallback.cause else ""
        lines.append(_format_fact(f"Eager: {fallback.function}", place, fallback.reason + because))
        lines += _first_advice(fallback.advice)
    for crash in e.crashes[:_FEW]:
        place = wording.format_position(crash.position) if crash.position else "place unknown"
        message = crash.message.partition("\n")[0]
        lines.append(_format_fact(f"Crash: {crash.error} in {crash.stage}", place, message))
        lines.append(text(f"    {_on_one_line(crash.conclusion)}", "dim"))
    notes = wording.short_notes(e)
    lines += [text(_on_one_line(note), "dim") for note in notes[: _FEW + 1]]
    groups = (e.recompiles, e.fallbacks, e.crashes)
    more = sum(max(0, len(group) - _FEW) for group in groups) + max(0, len(notes) - _FEW - 1)
    if more:
        lines.append(text(f"… and {wording.count(more, 'more note')}: -v", "dim"))
    if lines:
        yield Padding(Group(*lines), (1, 0, 0, 0))
    if e.measurement is not None:
        yield Padding(_two_column_grid(wording.measurement_rows(e)), (1, 0, 0, 0))
    end = [text(f"{wording.describe_setting(e)}", "dim")]
    if e.causes:
        end.append(text(HINT, "dim"))
    if any(edit.diff for cause in e.causes for edit in cause.edits):
        end.append(text(FIX_HINT, "dim"))
    yield Padding(Group(*end), (1 if e.causes or lines else 0, 0, 0, 0))


def _format_fact(title: str, place: str, message: str) -> Text:
    """Return "title (place): message" in colour."""
    shown = Text.assemble(
        text(_on_one_line(title), "bold yellow"),
        text(f" ({_on_one_line(place)})", "cyan"),
        text(f": {_on_one_line(message)}"),
    )
    shown.overflow = "fold"
    return shown


def _first_advice(advice: Sequence[Advice]) -> list[Text]:
    """Return the best advice as one line to print, "try: …"; [] without advice."""
    best = [_on_one_line(one.text) for one in wording.rank_advice(advice)[:1]]
    return [Text.assemble(("    try: ", "dim"), text(one), overflow="fold") for one in best]


def _on_one_line(sentence: str) -> str:
    """Return `sentence` without line breaks, cut to about three lines."""
    whole = " ".join(sentence.split())
    return whole if len(whole) <= 3 * WIDTH else whole[: 3 * WIDTH] + "…"


def _other_sections(e: ExplanationData) -> Iterator[RenderableType]:
    """Yield the sections on recompiles, eager frames, crashes and printed output."""
    for recompile in e.recompiles:
        yield from _recompile_section(recompile)
    for fallback in e.fallbacks:
        because = f" Because of {fallback.cause}." if fallback.cause else ""
        gb_id = f" ({fallback.gb_id})" if fallback.gb_id else ""
        parts = [text(f"{fallback.reason}{gb_id}{because}"), *tips(fallback.advice)]
        place = wording.format_place(fallback.file, fallback.line)
        yield from _section("ran eager", fallback.function, place, *parts)
    for crash in e.crashes:
        yield from _crash_section(crash)
    notes = wording.short_notes(e)
    if notes:
        yield Padding(Rule(text("Notes", "bold"), align="left", style="dim"), (1, 0, 0, 0))
    yield from map(text, notes)
    if e.measurement is not None:
        yield Padding(Rule(text("Measured", "bold"), align="left", style="dim"), (1, 0, 0, 0))
        yield _two_column_grid(wording.measurement_rows(e))
    if e.output:
        yield from _output_section(e.output)
    runs = wording.describe_runs(e) or ""
    yield Padding(text(f"{wording.describe_setting(e)}. {runs}".rstrip(), "dim"), (1, 0, 0, 0))


def _recompile_section(recompile: RecompileInfo) -> Iterator[RenderableType]:
    """Yield the section on a frame's recompiles: failed guards and advice."""
    title = f"{recompile.function} · {wording.count(recompile.count, 'time')}"
    if recompile.root:
        title = f"{recompile.root} · {title}"
    if recompile.seconds is not None:
        title = f"{title} · {wording.format_seconds(recompile.seconds)}"
    place = wording.recompile_place(recompile)
    guards = [text(f"guard failed: {guard}", "dim") for guard in recompile.guards]
    asked = [text(f"read at {wording.format_position(p)}", "dim") for p in recompile.positions]
    parts = [text(recompile.message), *guards, *asked, *edit_parts(recompile.as_cause())]
    yield from _section("recompiled", title, place, *parts)


def _section(kind: str, title: str, place: str, *parts: RenderableType) -> Iterator[RenderableType]:
    """Yield the heading "kind · title" and the place of a section, then its parts."""
    heading = Text.assemble(text(f"{kind} · ", "bold yellow"), text(title, "bold"))
    yield Padding(Rule(heading, align="left", style="dim"), (1, 0, 0, 0))
    yield text(place, "cyan")
    yield from parts


def _crash_section(crash: Crash) -> Iterator[RenderableType]:
    """Yield the section on a crash of the compiler."""
    place = wording.format_position(crash.position) if crash.position else "place unknown"
    yield from _section(
        "crash",
        f"{crash.error} in {crash.stage}, {wording.MODES.get(crash.mode, crash.mode)}",
        place,
        text(crash.message, "red"),
        text(crash.conclusion, "dim"),
    )


def _output_section(output: str) -> Iterator[RenderableType]:
    """Yield the section with what the user's code printed."""
    yield Padding(Rule(text("Your code printed", "bold"), align="left", style="dim"), (1, 0, 0, 0))
    yield Padding(text(wording.first_and_last_lines(output, _OUTPUT_LINES), "dim"), (0, 0, 0, 2))


def _two_column_grid(rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of (name, value) rows."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", style="dim")
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(text(name), text(value))
    return grid
