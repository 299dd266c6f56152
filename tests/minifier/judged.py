"""Problems for tests: graphs with plain Python judges, nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from fullgraph.minifier.graphs import BoundGraph
from fullgraph.minifier.oracle.problem import Problem, Verdict


def problem(
    graph: BoundGraph, fails: Callable[[BoundGraph], Any], *, jobs: int = 1, **more: Any
) -> Problem[BoundGraph]:
    """A problem whose judge runs a candidate in eager, and then asks `fails`; with `more` of it."""

    def judge(candidate: BoundGraph) -> Verdict:
        try:
            candidate.values()
        except Exception:
            return Verdict.UNRESOLVED
        return Verdict.SAME if fails(candidate) else Verdict.PASSES

    assert judge(graph) is Verdict.SAME
    return Problem(
        graph, partial(partial, judge), lambda candidate: candidate.key, jobs=jobs, **more
    )


def run(graph: BoundGraph) -> Any:
    """What a graph returns, on copies of its inputs."""
    inputs = [v.clone() if isinstance(v, torch.Tensor) and v.is_leaf else v for v in graph.inputs]
    return graph.module(*inputs)


def targets(graph: BoundGraph) -> list[str]:
    """The names of what a graph calls."""
    return [str(getattr(n.target, "__name__", n.target)).partition(".")[0] for n in graph.calls]
