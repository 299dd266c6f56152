"""What goes where before anything is drawn: the order of causes, the strip, the stack."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from pathlib import PurePath

from fullgraph.compiler.events import Position
from fullgraph.diagnose.explanation_data import Cause, ExplanationData, GraphInfo
from fullgraph.diagnose.report.wording import at, count, library, path

MANY = 6
"""From this number of causes on, a table of all of them comes first."""


def in_order(causes: tuple[Cause, ...]) -> tuple[tuple[Cause, int], ...]:
    """Every cause once, each followed by those found behind it, with its depth."""
    ids = {cause.id for cause in causes}
    behind: dict[str, list[Cause]] = {}
    for cause in causes:
        if cause.behind in ids and cause.behind != cause.id:
            behind.setdefault(str(cause.behind), []).append(cause)
    nested = {id(cause) for group in behind.values() for cause in group}
    seen: set[int] = set()
    order: list[tuple[Cause, int]] = []
    # Causes in a ring behind each other have no first one: they come last, at the top level.
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
class Strip:
    """One phase of the program in order: its graphs, and the breaks between them."""

    phase: str
    pieces: tuple[GraphInfo | Cause, ...]
    left_out: int = 0
    """Graphs beyond those shown."""


def strips(explanation: ExplanationData, most: int = 60) -> tuple[Strip, ...]:
    """A strip for each phase that has graphs, of at most `most` graphs each."""
    phases = dict.fromkeys(graph.phase for graph in explanation.graphs)
    shown = []
    for index, phase in enumerate(phases):
        graphs = [graph for graph in explanation.graphs if graph.phase == phase]
        causes = explanation.causes if index == 0 else ()
        pieces = tuple(_pieces(graphs[:most], causes, {c.id: c for c in explanation.causes}))
        shown.append(Strip(phase, pieces, max(0, len(graphs) - most)))
    return tuple(shown)


def _pieces(
    graphs: list[GraphInfo], causes: tuple[Cause, ...], by_id: dict[str, Cause]
) -> Iterator[GraphInfo | Cause]:
    ending = {graph.ended_by for graph in graphs}
    # A frame skipped before its first op ends no graph; program order says where it stands.
    alone = [
        c
        for c in causes
        if not c.hidden and not c.graphs and c.id not in ending and "default" in c.modes
    ]
    rank = {cause.id: index for index, cause in enumerate(causes)}
    for graph in graphs:
        cause = by_id.get(graph.ended_by or "")
        while cause and alone and rank[alone[0].id] < rank.get(cause.id, -1):
            yield alone.pop(0)
        yield graph
        if cause:
            yield cause
    yield from alone


def weight(ops: int) -> int:
    """How wide a graph of `ops` ops is drawn: 1 for 0, 2 for 1, 8 for 100, 11 for 1,000."""
    return 1 + round(log2(1 + max(0, ops)))


def folded(cause: Cause) -> tuple[str, ...]:
    """The calls that lead to `cause`, outermost first, runs of library frames as one line.

    A package that is itself being explained (the outermost frame lies in it) is not folded.
    """
    stack = cause.stack
    if stack and stack[-1].key == cause.position.key:
        stack = stack[:-1]
    own = _package(stack[0]) if stack else None
    rows: list[str] = []
    run: list[Position] = []
    for position in stack:
        if library(position.file) and (own == "torch" or _package(position) != own):
            run.append(position)
            continue
        rows += _run(run)
        run = []
        rows.append(at(position))
    return (*rows, *_run(run))


def _package(position: Position) -> str:
    return PurePath(path(position.file)).parts[0] if position.file else ""


def _run(run: list[Position]) -> list[str]:
    if not run:
        return []
    folders = [os.path.dirname(path(position.file)) for position in run]
    try:
        shared = os.path.commonpath(folders)
    except ValueError:  # an absolute path beside a relative one
        shared = ""
    where = shared or ", ".join(dict.fromkeys(map(_package, run)))
    return [f"… {count(len(run), 'frame')} in {where}"]
