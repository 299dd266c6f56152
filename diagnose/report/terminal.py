"""Terminal renderer: an explanation in colour on a console, or as plain text in 80 columns.

`render` draws all of it. Where causes come in one after another, `render_head`, then
`render_cause` for each, then `render_rest` draw the same in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from fullgraph.diagnose.explanation_data import Cause, Crash, ExplanationData, GraphInfo
from fullgraph.diagnose.report import wording
from fullgraph.diagnose.report.cause_block import block, text, tips
from fullgraph.diagnose.report.layout import MANY, Strip, graph_strips, graph_width, order_causes

WIDTH = 80
"""Columns of the plain text."""
_OUTPUT_LINES = 20
_STRIP_GRAPHS = 60
_ASCII = str.maketrans("▇│─┊·…–×→▸µ", "#|-|..-x>>u")


def plain(explanation: ExplanationData) -> str:
    """Return `explanation` as text without colour, at most 80 columns wide."""
    return draw_plain(lambda console: render(explanation, console))


def draw_plain(draw: Callable[[Console], None]) -> str:
    """Return what `draw` draws as text without colour, at most 80 columns wide."""
    file = StringIO()
    draw(Console(file=file, width=WIDTH, color_system=None, force_terminal=False, tab_size=4))
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().split("\n"))


def render(explanation: ExplanationData, console: Console) -> None:
    """Draw all of `explanation` on `console`, as wide as it is; fit for a pipe too."""
    render_head(explanation, console)
    tried = explanation.fullgraph.ok is not None
    for cause, depth in order_causes(explanation.causes):
        render_cause(cause, console, depth=depth, tried=tried)
    render_rest(explanation, console)


def render_head(explanation: ExplanationData, console: Console) -> None:
    """Draw what comes before the causes: verdict, modes, the strip; for many, a table."""
    show(console, *_verdict_lines(explanation))


def render_cause(
    cause: Cause, console: Console, *, depth: int | None = None, tried: bool = True
) -> None:
    """Draw one cause; `depth` is the number of causes it is hidden behind (None: 1 if `hidden`).

    `tried` says whether `fullgraph=True` was tried: only then "default mode only" is known.
    """
    level = min(depth if depth is not None else int(cause.hidden), 4)
    show(console, Padding(block(cause, tried), (1, 0, 0, 2 * level)))


def render_rest(explanation: ExplanationData, console: Console) -> None:
    """Draw what comes after the causes, from recompiles to how often the user's code ran."""
    show(console, *_other_sections(explanation))


def show(console: Console, *parts: RenderableType) -> None:
    """Print `parts`; replace characters that the console's encoding lacks."""
    encoding = console.encoding
    if encoding.lower().startswith("utf"):
        console.print(Group(*parts))
        return
    with console.capture() as capture:
        console.print(Group(*parts))
    drawn = capture.get().translate(_ASCII)
    console.out(drawn.encode(encoding, "replace").decode(encoding), end="", highlight=False)


def _verdict_lines(e: ExplanationData) -> Iterator[RenderableType]:
    """Yield the verdict and what is still missing."""
    praise = wording.describe_clean_model(e)
    yield text(e.verdict, f"bold {_verdict_colour(e)}")
    if e.error:
        yield text(f"Not finished: {e.error} What was found until then:", "bold red")
    if praise:
        yield text(praise, "green")
        return
    if not e.complete and not e.error:
        yield text("Still looking for hidden causes.", "dim")
    rows = [
        ("default mode", wording.describe_default_mode(e.default)),
        ("fullgraph=True", wording.describe_fullgraph_mode(e.fullgraph)),
    ]
    if e.backend:
        rows.append(("backend", e.backend))
    yield Padding(_two_column_grid(rows), (1, 0, 0, 0))
    for strip in graph_strips(e, _STRIP_GRAPHS):
        yield Padding(_draw_strip(strip), (1, 0, 0, 0))
    if len(e.causes) >= MANY:
        yield Padding(_cause_table(e.causes), (1, 0, 0, 0))


def _verdict_colour(e: ExplanationData) -> str:
    if e.crashes or e.error:
        return "red"
    troubled = e.causes or e.recompiles or e.fallbacks
    return "yellow" if troubled else "green"


def _draw_strip(strip: Strip) -> Text:
    """Draw ▇▇▇|C1|▇▇: graphs with a width that grows with their ops, between them causes."""
    drawn = Text(overflow="fold")
    if strip.phase != "forward":
        drawn.append(f"{wording.printable(strip.phase)} ", "dim")
    after_graph = False
    for piece in strip.pieces:
        if isinstance(piece, GraphInfo):
            if after_graph:
                drawn.append("┊", "dim")
            drawn.append("▇" * graph_width(piece.ops), "cyan")
        else:
            style = "bold yellow" if piece.frame == "resumed" else "bold red"
            drawn.append(f"|{wording.printable(piece.id)}|", style)
        after_graph = isinstance(piece, GraphInfo)
    if strip.left_out:
        drawn.append(f" … and {wording.count(strip.left_out, 'more graph')}", "dim")
    graphs = [piece for piece in strip.pieces if isinstance(piece, GraphInfo)]
    if len(graphs) <= 12:
        drawn.append("\n")
        drawn.append_text(text(" · ".join(map(_graph_legend, graphs)), "dim"))
    return drawn


def _graph_legend(graph: GraphInfo) -> str:
    cut = f" cut into {graph.splits} by DDPOptimizer" if graph.splits > 1 else ""
    return f"{graph.id} {wording.count(graph.ops, 'op')}{cut}"


def _cause_table(causes: Iterable[Cause]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("cause", overflow="fold", max_width=8)
    table.add_column("category", overflow="fold", ratio=3)
    table.add_column("place", overflow="fold", ratio=4)
    table.add_column("met", justify="right", overflow="fold", max_width=7)
    for cause, depth in order_causes(tuple(causes)):
        place = wording.format_place(
            cause.position.file, cause.position.line, cause.position.column
        )
        met = "hidden" if cause.hidden else f"{cause.events:,} ×"
        indent = "  " * min(depth, 1)
        table.add_row(text(indent + cause.id, "bold"), text(cause.category), text(place), met)
    return table


def _other_sections(e: ExplanationData) -> Iterator[RenderableType]:
    """Yield sections for recompiles, fallbacks, crashes, notes and printed output."""
    for recompile in e.recompiles:
        title = f"{recompile.function} · {wording.count(recompile.count, 'time')}"
        place = wording.format_place(recompile.file, recompile.line)
        guards = [text(f"guard failed: {guard}", "dim") for guard in recompile.guards]
        asked = [
            text(f"asked for at {wording.format_position(p)}", "dim") for p in recompile.positions
        ]
        parts = [text(recompile.message), *guards, *asked, *tips(recompile.advice)]
        yield from _section("recompiled", title, place, *parts)
    for fallback in e.fallbacks:
        because = f" Because of {fallback.cause}." if fallback.cause else ""
        gb_id = f" ({fallback.gb_id})" if fallback.gb_id else ""
        parts = [text(f"{fallback.reason}{gb_id}{because}"), *tips(fallback.advice)]
        place = wording.format_place(fallback.file, fallback.line)
        yield from _section("ran eager", fallback.function, place, *parts)
    for crash in e.crashes:
        yield from _crash_section(crash)
    if e.notes:
        yield Padding(Rule(text("Notes", "bold"), align="left", style="dim"), (1, 0, 0, 0))
    for note in e.notes:
        where = f" ({wording.format_position(note.position)})" if note.position else ""
        yield text(f"{note.kind}: {note.message}{where}")
    if e.measurement is not None:
        yield Padding(Rule(text("Measured", "bold"), align="left", style="dim"), (1, 0, 0, 0))
        yield _two_column_grid(wording.measurement_rows(e))
    if e.output:
        yield from _output_section(e.output)
    runs = wording.describe_runs(e)
    if runs:
        yield Padding(text(runs, "dim"), (1, 0, 0, 0))


def _section(kind: str, title: str, place: str, *parts: RenderableType) -> Iterator[RenderableType]:
    heading = Text.assemble(text(f"{kind} · ", "bold yellow"), text(title, "bold"))
    yield Padding(Rule(heading, align="left", style="dim"), (1, 0, 0, 0))
    yield text(place, "cyan")
    yield from parts


def _crash_section(crash: Crash) -> Iterator[RenderableType]:
    place = wording.format_position(crash.position) if crash.position else "place unknown"
    yield from _section(
        "crash",
        f"{crash.error} in {crash.stage}, {wording.MODES.get(crash.mode, crash.mode)}",
        place,
        text(crash.message, "red"),
        text("This is a bug in the compiler, not in your code.", "dim"),
    )


def _output_section(output: str) -> Iterator[RenderableType]:
    lines = output.rstrip("\n").split("\n")
    yield Padding(Rule(text("Your code printed", "bold"), align="left", style="dim"), (1, 0, 0, 0))
    yield Padding(text("\n".join(lines[:_OUTPUT_LINES]), "dim"), (0, 0, 0, 2))
    if len(lines) > _OUTPUT_LINES:
        yield text(f"… {wording.count(len(lines) - _OUTPUT_LINES, 'more line')}", "dim")


def _two_column_grid(rows: Iterable[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", style="dim")
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(text(name), text(value))
    return grid
