"""Layout that all renderers share: the order of causes, the strip of graphs, the stack."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from pathlib import PurePath

from fullgraph.compiler.events import Position
from fullgraph.compiler.sources import short_path
from fullgraph.diagnose.explanation_data import Cause, ExplanationData, GraphInfo
from fullgraph.diagnose.report.wording import count, format_position, is_library


def order_causes(causes: tuple[Cause, ...]) -> tuple[tuple[Cause, int], ...]:
    """Return each cause with its depth; the causes hidden behind it follow it.

    A cause has depth 0 if no other hides it, else one more than the cause that hides it.
    """
    ids = {cause.id for cause in causes}
    behind: dict[str, list[Cause]] = {}
    for cause in causes:
        if cause.behind in ids and cause.behind != cause.id:
            behind.setdefault(str(cause.behind), []).append(cause)
    nested = {id(cause) for group in behind.values() for cause in group}
    seen: set[int] = set()
    order: list[tuple[Cause, int]] = []
    # Causes that hide each other in a cycle come last, at the top level.
    starts = [c for c in causes if id(c) not in nested] + list(causes)
    waiting = [(cause, 0) for cause in reversed(starts)]
    while waiting:
        cause, depth = waiting.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        order.append((cause, depth))
        waiting += [(inner, depth + 1) for inner in reversed(behind.get(cause.id, []))]
    return tuple(order)


@dataclass(frozen=True)
class EagerPart:
    """Operators in a row that run in eager."""

    ops: int


@dataclass(frozen=True)
class Strip:
    """The graphs of one phase, the breaks between them and what runs in eager, in program order."""

    phase: str
    pieces: tuple[GraphInfo | Cause | EagerPart, ...]
    left_out: int = 0
    """Number of graphs that are not shown."""

    @property
    def graphs(self) -> tuple[GraphInfo, ...]:
        """Return the graphs among the pieces."""
        return tuple(piece for piece in self.pieces if isinstance(piece, GraphInfo))

    @property
    def eager_ops(self) -> int:
        """Return the number of operators that run in eager."""
        return sum(piece.ops for piece in self.pieces if isinstance(piece, EagerPart))


def graph_strips(explanation: ExplanationData, most: int = 60) -> tuple[Strip, ...]:
    """Return one strip for each phase of `GraphInfo.phase`, of at most `most` graphs."""
    phases = dict.fromkeys(graph.phase for graph in explanation.graphs)
    if not phases and any(explanation.eager_ops):
        phases = dict.fromkeys(["forward"])
    shown = []
    for index, phase in enumerate(phases):
        graphs = [graph for graph in explanation.graphs if graph.phase == phase]
        causes = explanation.causes if index == 0 else ()
        eager = explanation.eager_ops if phase == "forward" else ()
        by_id = {cause.id: cause for cause in explanation.causes}
        pieces = tuple(_strip_pieces(graphs[:most], causes, by_id, eager))
        shown.append(Strip(phase, pieces, max(0, len(graphs) - most)))
    return tuple(shown)


def _strip_pieces(
    graphs: list[GraphInfo],
    causes: tuple[Cause, ...],
    by_id: dict[str, Cause],
    eager_ops: tuple[int, ...],
) -> Iterator[GraphInfo | Cause | EagerPart]:
    """Yield the graphs, each followed by the cause that ended it, in program order.

    `by_id` finds this cause by its id. `eager_ops` are the numbers of operators in eager before the
    first graph and after each; they follow the causes. Those of `causes` that broke a frame before
    its first operation ended no graph; they are yielded before the graph that was compiled next.
    """
    ending = {graph.ended_by for graph in graphs}
    alone = [
        c
        for c in causes
        if not c.hidden and not c.graphs and c.id not in ending and "default" in c.modes
    ]
    counts = [*eager_ops, *[0] * (len(graphs) + 1 - len(eager_ops))]
    shown = {graph.id for graph in graphs}
    for graph, eager in zip(graphs, counts, strict=False):
        yield from (cause for cause in alone if cause.next_graph == graph.id)
        if eager:
            yield EagerPart(eager)
        yield graph
        if cause := by_id.get(graph.ended_by or ""):
            yield cause
    yield from (cause for cause in alone if cause.next_graph not in shown)
    if last := counts[len(graphs)]:
        yield EagerPart(last)


def graph_width(ops: int) -> int:
    """Return the width of a graph in characters: 1 for 0 ops, 2 for 1, 8 for 100, 11 for 1,000."""
    return 1 + round(log2(1 + max(0, ops)))


def fold_stack(cause: Cause) -> tuple[str, ...]:
    """Return the calls that lead to `cause`, outermost first, with library frames folded.

    Frames of the outermost frame's package are not folded: that package is being explained.
    """
    stack = cause.stack
    if stack and stack[-1].key == cause.position.key:
        stack = stack[:-1]
    explained = _package_of(stack[0]) if stack else None
    rows: list[str] = []
    run: list[Position] = []
    for position in stack:
        if is_library(position.file) and (
            explained == "torch" or _package_of(position) != explained
        ):
            run.append(position)
            continue
        rows += _fold_frames(run)
        run = []
        rows.append(format_position(position))
    return (*rows, *_fold_frames(run))


def _package_of(position: Position) -> str:
    return next(iter(PurePath(short_path(position.file)).parts), "")


def _fold_frames(run: list[Position]) -> list[str]:
    """Return ["… 3 frames in torch/nn"] for three adjacent frames; [] for no frames."""
    if not run:
        return []
    folders = [os.path.dirname(short_path(position.file)) for position in run]
    try:
        shared = os.path.commonpath(folders)
    except ValueError:  # an absolute path beside a relative one
        shared = ""
    where = shared or ", ".join(dict.fromkeys(map(_package_of, run)))
    return [f"… {count(len(run), 'frame')} in {where}"]
