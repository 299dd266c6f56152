"""What is wrong inside a rung: which part of it, and with which call of the graph."""

from __future__ import annotations

import linecache
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from torch.fx import Node

from fullgraph.compiler import isolation
from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private import read
from fullgraph.minifier.bisection import Cut
from fullgraph.minifier.case import Case
from fullgraph.minifier.climb import rung_of
from fullgraph.minifier.culprit import Culprit, culprit
from fullgraph.minifier.failure import Failure
from fullgraph.minifier.graph import Graph
from fullgraph.minifier.journal import Journal
from fullgraph.minifier.problem import OutOfBudget
from fullgraph.minifier.reduce.graph import shortest
from fullgraph.minifier.sandbox import Sandbox
from fullgraph.minifier.work import Work, failing_graph, of_graph


def look_inside(
    case: Case, rungs: Sequence[Rung], failure: Failure, sandbox: Sandbox, deadline: float | None
) -> tuple[Culprit | None, Cut | None]:
    """The part of the rung that is wrong, and the shortest beginning of the first graph that fails
    alone: all that the rest uses of it is looked at.

    The part is looked for in that beginning, which is sooner compiled; in the whole program where
    no graph shows the failure.
    """

    def job(_: object) -> tuple[Culprit | None, Cut | None, int]:
        with tempfile.TemporaryDirectory(prefix="fullgraph-") as folder:
            journal = Journal(Path(folder, "journal"), "")
            work = Work(case, tuple(rungs), sandbox, journal, deadline=deadline)
            graph = failing_graph(work, failure)
            cut, smaller = None, case
            if graph is not None:
                problem = of_graph(work, graph, failure)
                with suppress(OutOfBudget):
                    last = shortest(problem)
                    cut = None if last is None else _cut(graph, last)
                smaller = work.alone(problem.current)
            part = None
            if not work.spent():
                part = culprit(smaller, rung_of(rungs, failure), failure, sandbox)
            return part, cut, sandbox.calls

    found = isolation.run(job, where="fork").value
    if found is None:
        return None, None
    part, cut, sandbox.calls = found
    return part, cut


def _cut(graph: Graph, last: Node) -> Cut:
    calls = graph.calls
    told = read.graph_call(last, graph.module)
    place = f"{Path(told.file).name}:{told.line}" if told.file else ""
    code = linecache.getline(told.file, told.line).strip() if told.file and told.line else ""
    return Cut(calls.index(last) + 1, len(calls), told.target, place, code)
