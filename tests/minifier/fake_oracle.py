"""Problems for tests: plain Python judges, nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch

from fullgraph.compiler.numerics import Mismatch
from fullgraph.minifier.graphs import BoundGraph
from fullgraph.minifier.oracle.attempt import RungOutcome
from fullgraph.minifier.oracle.candidate import Candidate, Report, Verdict
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Failure, Kind
from fullgraph.minifier.oracle.oracle import Oracle
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.oracle.sandbox import Sandbox

T = TypeVar("T")
EXPECTED = Failure("judged", Kind.RESULT, ("expected",), "")
REPORTS = {
    Verdict.SAME: Report((RungOutcome("judged", EXPECTED, 0.0),)),
    Verdict.OTHER: Report((RungOutcome("judged", Failure("judged", Kind.CRASH, (), ""), 0.0),)),
    Verdict.PASSES: Report(()),
    Verdict.UNRESOLVED: Report((), "It could not be tried."),
}


class Judge(Sandbox):
    """A sandbox that judges what a candidate holds, rather than running it."""

    def __init__(self, report: Callable[[Any], Report], jobs: int = 1) -> None:
        super().__init__(str, jobs=jobs)
        self._report = report

    def begin(self, candidate: Candidate) -> Future[Report]:
        found: Future[Report] = Future()
        found.set_result(self._report(candidate.program))
        return found


def judged(
    start: T,
    judge: Callable[[T], Report | Verdict],
    key: Callable[[T], str] = str,
    *,
    sandbox: Sandbox | None = None,
    jobs: int = 1,
    **more: Any,
) -> Problem[T]:
    """A problem whose oracle asks `judge`, or `sandbox`; with `more` of the oracle."""

    def report(thing: T) -> Report:
        found = judge(thing)
        return found if isinstance(found, Report) else REPORTS[found]

    oracle = Oracle(sandbox or Judge(report, jobs), **more)
    oracle.expected = EXPECTED
    return Problem(start, oracle, lambda thing: Candidate(key(thing), cast(Case, thing), ()))


def problem(
    graph: BoundGraph,
    fails: Callable[[BoundGraph], Any],
    *,
    jobs: int = 1,
    where: Callable[[BoundGraph], str] | None = None,
) -> Problem[BoundGraph]:
    """A problem whose judge runs a candidate in eager, and then asks `fails`.

    `where` says in which result a failing graph goes wrong."""

    def judge(candidate: BoundGraph) -> Report | Verdict:
        try:
            candidate.values()
        except Exception:
            return Verdict.UNRESOLVED
        if not fails(candidate):
            return Verdict.PASSES
        if where is None:
            return Verdict.SAME
        difference = Mismatch("result", where(candidate), "value", "", "")
        failure = replace(EXPECTED, difference=difference)
        return Report((RungOutcome("judged", failure, 0.0),))

    assert judge(graph) not in (Verdict.PASSES, Verdict.UNRESOLVED)
    return judged(graph, judge, lambda candidate: candidate.key, jobs=jobs)


def run(graph: BoundGraph) -> Any:
    """What a graph returns, on copies of its inputs."""
    inputs = [v.clone() if isinstance(v, torch.Tensor) and v.is_leaf else v for v in graph.inputs]
    return graph.module(*inputs)


def targets(graph: BoundGraph) -> list[str]:
    """The names of what a graph calls."""
    return [str(getattr(n.target, "__name__", n.target)).partition(".")[0] for n in graph.calls]
