"""Localize a failure within a rung: the faulty part, and the first wrong call."""

from __future__ import annotations

import linecache
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from torch.fx import Node

from fullgraph.compiler.isolation import process_with_own_memory, run_isolated
from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private import describe_node
from fullgraph.minifier.graphs import BoundGraph
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.journal import Journal
from fullgraph.minifier.oracle.problem import OutOfBudget
from fullgraph.minifier.oracle.sandbox import Sandbox
from fullgraph.minifier.reduce.graph.calls import shorten
from fullgraph.minifier.reduce.reduction import Reduction
from fullgraph.minifier.reduce.stages import find_failing_graph, of_graph
from fullgraph.minifier.rungs.bisection import Bisection, Cut
from fullgraph.minifier.rungs.culprit import Culprit, culprit
from fullgraph.minifier.rungs.ladder_run import rung_of


def localize(
    case: Case,
    rungs: Sequence[Rung],
    found: Bisection,
    sandbox: Sandbox,
    deadline: float | None,
) -> Bisection:
    """Return `found` with the faulty part of the rung and the shortest failing beginning.

    The beginning is one of the first graph that fails on its own. The part is looked for in it,
    which compiles faster; in the whole program where no graph shows the failure."""
    failure = found.failure
    assert failure is not None
    rung = rung_of(rungs, failure)

    def job(_: object) -> tuple[Cut | None, Culprit | None, int]:
        with (
            tempfile.TemporaryDirectory(prefix="fullgraph-") as folder,
            closing(Journal(Path(folder, "journal"), "")) as journal,
        ):
            reduction = Reduction(
                case, tuple(rungs), rung, lambda: found, sandbox, journal, deadline=deadline
            )
            try:
                cut, smaller = _beginning(reduction)
                part = None if reduction.spent() else culprit(smaller, rung, failure, sandbox)
            finally:
                if process_with_own_memory() == "fork":  # else it is used on
                    sandbox.stop()
            return cut, part, sandbox.calls

    told = run_isolated(job, where=process_with_own_memory()).value
    if told is None:  # the graph could not even be captured
        return replace(found, culprit=culprit(case, rung, failure, sandbox))
    cut, part, sandbox.calls = told
    return replace(found, cut=cut, culprit=part)


def _beginning(reduction: Reduction) -> tuple[Cut | None, Case]:
    """Return where the first failing graph is cut, and what precedes the cut as a case."""
    graph = find_failing_graph(reduction)
    if graph is None:
        return None, reduction.case
    problem = of_graph(reduction, graph)
    cut = None
    with suppress(OutOfBudget):
        last = shorten(problem)
        cut = None if last is None else _cut(graph, last)
    return cut, reduction.alone(problem.current)


def _cut(graph: BoundGraph, last: Node) -> Cut:
    calls = graph.calls
    told = describe_node(last, graph.module)
    place = f"{Path(told.file).name}:{told.line}" if told.file else ""
    code = linecache.getline(told.file, told.line).strip() if told.file and told.line else ""
    return Cut(calls.index(last) + 1, len(calls), told.target, place, code)
