"""Localize a failure within a rung: the faulty part, and the first wrong call."""

from __future__ import annotations

import linecache
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from torch.fx import Node

from fullgraph.compiler.isolation import process_with_own_memory, run_isolated
from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private import describe_node
from fullgraph.compiler.sources import cell_name
from fullgraph.minifier.graphs import BoundGraph
from fullgraph.minifier.oracle.candidate import Candidate
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.oracle import Oracle, OutOfBudget
from fullgraph.minifier.reduce.graph.calls import shorten
from fullgraph.minifier.reduce.reduction import Reduction
from fullgraph.minifier.reduce.stages import capture_graphs, find_failing_graph
from fullgraph.minifier.rungs.bisection import Bisection, Cut
from fullgraph.minifier.rungs.culprit import find_culprit
from fullgraph.minifier.rungs.ladder_run import expect_failure, rung_of
from fullgraph.minifier.rungs.substitution import substitute_stages


def localize(case: Case, rungs: tuple[Rung, ...], found: Bisection, oracle: Oracle) -> Bisection:
    """Return the bisection `found` with `culprit`, the faulty part of its rung, and with `cut`.

    `cut` is the shortest failing prefix of the first graph that fails without the rest of the
    program. `culprit` is looked for in that prefix, which compiles faster, and stages are
    substituted in it. If no graph fails alone, `cut` is None, and both are done with the whole
    program.
    """
    assert found.failure is not None
    reduction = Reduction(case, rungs, rung_of(rungs, found.failure), oracle)
    expect_failure(found, oracle)

    def job(_: object) -> tuple[Bisection, int]:
        """Return the bisection, and the number of oracle calls in all."""
        try:
            cut, smaller = _find_prefix(reduction)
            located = _look_inside(replace(found, cut=cut), smaller, oracle)
        finally:
            if process_with_own_memory() == "fork":  # else it is used on
                oracle.sandbox.stop()
        return located, oracle.counts.calls

    localized = run_isolated(job, where=process_with_own_memory()).value
    if localized is None:  # the graph could not even be captured
        return _look_inside(found, reduction.program, oracle)
    located, oracle.counts.calls = localized
    return located


def _look_inside(found: Bisection, failing: Candidate, oracle: Oracle) -> Bisection:
    """Return the bisection `found` with the culprit and the substitutions of a failing candidate.

    They are looked for as long as the budget lasts.
    """
    if not oracle.is_out_of_budget():
        found = replace(found, culprit=find_culprit(failing, oracle))
    if not oracle.is_out_of_budget():
        found = replace(found, substitutions=substitute_stages(failing, oracle))
    return found


def _find_prefix(reduction: Reduction) -> tuple[Cut | None, Candidate]:
    """Return the shortest failing prefix of a graph as a `Cut`, and as a candidate to run.

    The graph is the first one that fails without the rest of the program. If there is none, returns
    None and the whole program. If the budget ends first, returns None and the shortest prefix so
    far.
    """
    for level in reduction.possible:
        problem = find_failing_graph(reduction, capture_graphs(reduction.case, level))
        if problem is not None:
            break
    else:
        return None, reduction.program
    cut = None
    with suppress(OutOfBudget):
        last = shorten(problem)
        cut = None if last is None else _make_cut(problem.start, last)
    return cut, problem.candidate


def _make_cut(graph: BoundGraph, last: Node) -> Cut:
    """Return the `Cut` of a graph whose shortest failing prefix ends with the call `last`.

    It has the user's line that makes that call; "" if the line is unknown.
    """
    calls = graph.calls
    node = describe_node(last, graph.module)
    name = cell_name(node.file) or Path(node.file).name if node.file else ""
    place = f"{name}:{node.line}" if name else ""
    code = linecache.getline(node.file, node.line).strip() if node.file and node.line else ""
    return Cut(calls.index(last) + 1, len(calls), node.target, place, code)
