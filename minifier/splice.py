"""Where in its graph a program goes wrong: a beginning is compiled, and the rest is left away."""

from __future__ import annotations

import linecache
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torch.fx import Node

from fullgraph.compiler import isolation
from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private import read
from fullgraph.minifier.bisection import Cut
from fullgraph.minifier.case import Case
from fullgraph.minifier.failure import Failure
from fullgraph.minifier.graph import Graph
from fullgraph.minifier.journal import Journal
from fullgraph.minifier.problem import OutOfBudget
from fullgraph.minifier.reduce.graph import shortest
from fullgraph.minifier.sandbox import Sandbox
from fullgraph.minifier.work import Work, failing_graph, of_graph


def splice(
    case: Case, rungs: Sequence[Rung], failure: Failure, sandbox: Sandbox, deadline: float | None
) -> Cut | None:
    """The shortest beginning of the first graph that fails alone: all that the rest uses of it is
    looked at. None where no graph shows the failure, or the time is over."""

    def job(_: object) -> Cut | None:
        with tempfile.TemporaryDirectory(prefix="fullgraph-") as folder:
            journal = Journal(Path(folder, "journal"), "")
            work = Work(case, tuple(rungs), sandbox, journal, deadline=deadline)
            graph = failing_graph(work, failure)
            if graph is None:
                return None
            try:
                last = shortest(of_graph(work, graph, failure))
            except OutOfBudget:
                return None
            return _cut(graph, last) if last is not None else None

    return isolation.run(job, where="fork").value


def _cut(graph: Graph, last: Node) -> Cut:
    calls = graph.calls
    told = read.graph_call(last, graph.module)
    place = f"{Path(told.file).name}:{told.line}" if told.file else ""
    code = linecache.getline(told.file, told.line).strip() if told.file and told.line else ""
    return Cut(calls.index(last) + 1, len(calls), told.target, place, code)
