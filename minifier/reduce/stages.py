"""Stages of a reduction: the graph that fails on its own, or source that no graph shows."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import torch

from fullgraph.compiler.isolation import snapshot
from fullgraph.compiler.private import (
    GraphLevel,
    capture_graph,
    count_graph_calls,
    has_functorch_transform,
    non_default_config,
    reset_config,
)
from fullgraph.compiler.results import Loss, backward
from fullgraph.minifier.graphs import BoundGraph
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Kind
from fullgraph.minifier.oracle.identity import digest
from fullgraph.minifier.oracle.problem import OutOfBudget, Problem, Verdict
from fullgraph.minifier.reduce.graph.calls import reduce_graph
from fullgraph.minifier.reduce.graph.single_call import isolate_calls
from fullgraph.minifier.reduce.inputs.plain_inputs import reduce_inputs
from fullgraph.minifier.reduce.modules import (
    ModulePlan,
    ModuleRecording,
    apply_plan,
    record_modules,
    reduce_modules,
)
from fullgraph.minifier.reduce.reduction import Reduction, UnexpectedFailure
from fullgraph.minifier.reduce.source.entry_point import entry_call, load_module
from fullgraph.minifier.reduce.source.passes import reduce_source

OURS = "The reducer itself failed: "
OVER = "The budget was over while something could still be taken away."


@dataclass(frozen=True)
class Reduced:
    """The smallest failing graph, and what it needs."""

    graph: BoundGraph
    case: Case
    settings: tuple[str, ...]
    """Names of the settings without which it does not fail."""
    before: int


def reduced(work: Reduction) -> Reduced | None:
    """Return the smallest graph that fails like the program; None if no graph does.

    Raises UnexpectedFailure."""
    problem = _begun(work)
    if problem is None:
        return None
    before = problem.start.ops
    needed = tuple(non_default_config())
    try:
        with tolerate_reducer_errors(work):
            reduce_graph(problem)
            work.tell("inputs", before, problem.current.ops)
            reduce_inputs(problem)
            reduce_graph(problem)
            needed = _needed(work, problem.current)
    except OutOfBudget:
        work.notes.append(OVER)
    case = work.alone(problem.current)
    return Reduced(problem.current, case, needed, before)


@contextmanager
def tolerate_reducer_errors(work: Reduction) -> Iterator[None]:
    """A bug of ours costs the steps in here, not the result."""
    try:
        yield
    except (UnexpectedFailure, OutOfBudget):
        raise
    except Exception:
        work.notes.append(OURS + traceback.format_exc())


def _begun(work: Reduction) -> Problem[BoundGraph] | None:
    """A graph that fails alone, each time. Transforms of torch.func are better seen in
    AOTAutograd's graph, where they are done."""
    levels = list(work.possible)
    while levels:
        level = levels.pop(0)
        found = capture_graphs(work.case, level)
        if levels and any(has_functorch_transform(graph.module) for graph in found):
            levels.append(level)
            continue
        problem = _first(work, found)
        if problem is not None:
            return problem
    return None


def _first(work: Reduction, graphs: Sequence[BoundGraph]) -> Problem[BoundGraph] | None:
    """The first graph that fails. If there is only one, its calls are asked first: a whole graph
    takes longer, and so does the whole program, which must fail each time if no call does."""
    found = _single(work, graphs[0]) if len(graphs) == 1 else None
    if found is not None:
        return found
    work.steady.begin()
    failing = _failing(work, graphs)
    work.steady.end()
    return None if failing is None else of_graph(work, failing)


def _single(work: Reduction, graph: BoundGraph) -> Problem[BoundGraph] | None:
    """The calls of a graph that fail by themselves each time, and without a loss."""
    loss, work.loss = work.loss, None
    problem = of_graph(work, graph)
    with suppress(OutOfBudget), tolerate_reducer_errors(work):
        isolate_calls(problem)
    if problem.current is not graph:
        case, key = work.alone(problem.current), _key(work, problem.current, None)
        if not work.check_reproducible(case, f"steady {key}")():
            return problem
        work.doubt(key)
    work.loss = loss
    return None


def of_graph(work: Reduction, graph: BoundGraph) -> Problem[BoundGraph]:
    """A graph that fails so, to be made smaller."""
    before = graph.ops
    work.tell("graph", before, before)
    return work.problem(
        graph,
        work.alone,
        lambda graph: _key(work, graph, work.loss),
        lambda graph: work.step("graph", before, graph.ops, graph),
    )


def find_failing_graph(work: Reduction) -> BoundGraph | None:
    """The first graph of the program that fails alone in the same way."""
    for level in work.possible:
        found = _failing(work, capture_graphs(work.case, level))
        if found is not None:
            return found
    return None


def _failing(work: Reduction, graphs: Sequence[BoundGraph]) -> BoundGraph | None:
    return next((graph for graph in graphs if _fails(work, graph)), None)


def _fails(work: Reduction, graph: BoundGraph) -> bool:
    """Whether a graph fails alone; from then on with a loss, where it does only so."""
    for loss in (None, True) if work.loss else (None,):
        if work.fails(_key(work, graph, loss), replace(work.alone(graph), loss=loss)):
            work.loss = loss
            return True
    return False


def _key(work: Reduction, graph: BoundGraph, loss: Loss) -> str:
    return f"{work.name} {loss} {graph.key}"


def capture_graphs(case: Case, level: GraphLevel = "dynamo") -> list[BoundGraph]:
    """The graphs that a program becomes, each with its inputs as they were: Dynamo's, or those of
    AOTAutograd, forward and backward."""
    before = snapshot(case.objects)

    def run(backend: Callable[..., object]) -> None:
        torch.compiler.reset()
        compiled = torch.compile(case.target, backend=backend, dynamic=case.dynamic)
        output = compiled(*case.args, **case.kwargs)
        if case.loss:
            backward(output, case.loss)

    found = []
    try:
        for number in range(count_graph_calls(run, level)):
            before.restore()
            reached = capture_graph(run, number, level)
            if reached is not None:
                found.append(BoundGraph(*reached))
    except Exception:
        return found  # the compiler itself fails before that: the source tells more
    finally:
        before.restore()
    return found


def _needed(work: Reduction, graph: BoundGraph) -> tuple[str, ...]:
    """The settings that are not torch's own and without which `graph` does not fail."""
    case, tries = work.alone(graph), work.tries(f"settings {graph.key}")
    needed = list(non_default_config())
    for name in list(needed):
        rest = [other for other in needed if other != name]
        made = functools.partial(_with, case, rest)
        report = tries.report(made, [work.rung])
        if report.verdict(work.failure) is Verdict.SAME:
            needed = rest
    return tuple(needed)


def _with(case: Case, kept: Sequence[str]) -> Case:
    """`case`, in a process in which only the settings `kept` are not torch's own."""
    for name in non_default_config():
        if name not in kept:
            reset_config(name)
    return case


def reduce_tree(work: Reduction) -> Callable[[], None]:
    """Let modules of the program that the failure does not need stand for themselves, in this
    process. Returns what undoes that."""
    module, case = work.case.module, work.case
    if module is None or not module._modules:
        return lambda: None
    before = snapshot(case.objects)
    try:
        recorded = record_modules(module, lambda: case.target(*case.args, **case.kwargs))
    finally:
        before.restore()
    if work.failure.kind is Kind.RECOMPILE:
        recorded = recorded.called_once()

    def left(plan: ModulePlan) -> int:
        return sum(not plan.touches(path) for path in recorded.outputs)

    count = len(recorded.outputs)
    work.tell("modules", count, count)
    problem = work.problem(
        ModulePlan(),
        lambda plan: functools.partial(_planned, case, plan, recorded),
        lambda plan: f"{work.name} modules {plan}",
        lambda plan: work.tell("modules", count, left(plan)),
    )
    with suppress(OutOfBudget):
        reduce_modules(problem, module, recorded)
    return apply_plan(module, problem.current, recorded)


def _planned(case: Case, plan: ModulePlan, recorded: ModuleRecording) -> Case:
    assert case.module is not None
    apply_plan(case.module, plan, recorded)
    return case


def reduce_text(work: Reduction, text: str) -> str:
    """Return the smallest source whose `build()` gives a program that fails the same way."""
    before = len(text.splitlines())
    work.tell("source", before, before)

    problem = work.problem(
        text,
        lambda text: functools.partial(case_of_text, text, work.case),
        lambda text: f"{work.name} {digest(text)}",
        lambda text: work.step("source", before, len(text.splitlines()), text),
    )
    try:
        reduce_source(problem)
    except OutOfBudget:
        work.notes.append(OVER)
    return problem.current


def case_of_text(text: str, case: Case) -> Case:
    """Return the case of a text's `build()`. Raises whatever the text raises."""
    model, args, kwargs = entry_call(load_module(text))
    return replace(case, target=model, args=args, kwargs=kwargs)
