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


def reduced(reduction: Reduction) -> Reduced | None:
    """Return the smallest graph that fails like the program; None if no graph does.

    Raises UnexpectedFailure."""
    problem = _begun(reduction)
    if problem is None:
        return None
    before = problem.start.ops
    needed = tuple(non_default_config())
    try:
        with tolerate_reducer_errors(reduction):
            reduce_graph(problem)
            reduction.tell("inputs", before, problem.current.ops)
            reduce_inputs(problem)
            reduce_graph(problem)
            needed = _needed(reduction, problem.current)
    except OutOfBudget:
        reduction.notes.append(OVER)
    case = reduction.alone(problem.current)
    return Reduced(problem.current, case, needed, before)


@contextmanager
def tolerate_reducer_errors(reduction: Reduction) -> Iterator[None]:
    """A bug of ours costs the steps in here, not the result."""
    try:
        yield
    except (UnexpectedFailure, OutOfBudget):
        raise
    except Exception:
        reduction.notes.append(OURS + traceback.format_exc())


def _begun(reduction: Reduction) -> Problem[BoundGraph] | None:
    """A graph that fails alone, each time. Transforms of torch.func are better seen in
    AOTAutograd's graph, where they are done."""
    levels = list(reduction.possible)
    while levels:
        level = levels.pop(0)
        found = capture_graphs(reduction.case, level)
        if levels and any(has_functorch_transform(graph.module) for graph in found):
            levels.append(level)
            continue
        problem = _first(reduction, found)
        if problem is not None:
            return problem
    return None


def _first(reduction: Reduction, graphs: Sequence[BoundGraph]) -> Problem[BoundGraph] | None:
    """The first graph that fails. If there is only one, its calls are asked first: a whole graph
    takes longer, and so does the whole program, which must fail each time if no call does."""
    found = _single(reduction, graphs[0]) if len(graphs) == 1 else None
    if found is not None:
        return found
    reduction.steady.begin()
    failing = _failing(reduction, graphs)
    reduction.steady.end()
    return None if failing is None else of_graph(reduction, failing)


def _single(reduction: Reduction, graph: BoundGraph) -> Problem[BoundGraph] | None:
    """The calls of a graph that fail by themselves each time, and without a loss."""
    loss, reduction.loss = reduction.loss, None
    problem = of_graph(reduction, graph)
    with suppress(OutOfBudget), tolerate_reducer_errors(reduction):
        isolate_calls(problem)
    if problem.current is not graph:
        case, key = reduction.alone(problem.current), _key(reduction, problem.current, None)
        if not reduction.check_reproducible(case, f"steady {key}")():
            return problem
        reduction.doubt(key)
    reduction.loss = loss
    return None


def of_graph(reduction: Reduction, graph: BoundGraph) -> Problem[BoundGraph]:
    """A graph that fails so, to be made smaller."""
    before = graph.ops
    reduction.tell("graph", before, before)
    return reduction.problem(
        graph,
        reduction.alone,
        lambda graph: _key(reduction, graph, reduction.loss),
        lambda graph: reduction.step("graph", before, graph.ops, graph),
    )


def find_failing_graph(reduction: Reduction) -> BoundGraph | None:
    """The first graph of the program that fails alone in the same way."""
    for level in reduction.possible:
        found = _failing(reduction, capture_graphs(reduction.case, level))
        if found is not None:
            return found
    return None


def _failing(reduction: Reduction, graphs: Sequence[BoundGraph]) -> BoundGraph | None:
    return next((graph for graph in graphs if _fails(reduction, graph)), None)


def _fails(reduction: Reduction, graph: BoundGraph) -> bool:
    """Whether a graph fails alone; from then on with a loss, where it does only so."""
    for loss in (None, True) if reduction.loss else (None,):
        if reduction.fails(
            _key(reduction, graph, loss), replace(reduction.alone(graph), loss=loss)
        ):
            reduction.loss = loss
            return True
    return False


def _key(reduction: Reduction, graph: BoundGraph, loss: Loss) -> str:
    return f"{reduction.name} {loss} {graph.key}"


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


def _needed(reduction: Reduction, graph: BoundGraph) -> tuple[str, ...]:
    """The settings that are not torch's own and without which `graph` does not fail."""
    case, tries = reduction.alone(graph), reduction.tries(f"settings {graph.key}")
    needed = list(non_default_config())
    for name in list(needed):
        rest = [other for other in needed if other != name]
        made = functools.partial(_with, case, rest)
        report = tries.report(made, [reduction.rung])
        if report.verdict(reduction.failure) is Verdict.SAME:
            needed = rest
    return tuple(needed)


def _with(case: Case, kept: Sequence[str]) -> Case:
    """`case`, in a process in which only the settings `kept` are not torch's own."""
    for name in non_default_config():
        if name not in kept:
            reset_config(name)
    return case


def reduce_tree(reduction: Reduction) -> Callable[[], None]:
    """Let modules of the program that the failure does not need stand for themselves, in this
    process. Returns what undoes that."""
    module, case = reduction.case.module, reduction.case
    if module is None or not module._modules:
        return lambda: None
    before = snapshot(case.objects)
    try:
        recorded = record_modules(module, lambda: case.target(*case.args, **case.kwargs))
    finally:
        before.restore()
    if reduction.failure.kind is Kind.RECOMPILE:
        recorded = recorded.called_once()

    def left(plan: ModulePlan) -> int:
        return sum(not plan.touches(path) for path in recorded.outputs)

    count = len(recorded.outputs)
    reduction.tell("modules", count, count)
    problem = reduction.problem(
        ModulePlan(),
        lambda plan: functools.partial(_planned, case, plan, recorded),
        lambda plan: f"{reduction.name} modules {plan}",
        lambda plan: reduction.tell("modules", count, left(plan)),
    )
    with suppress(OutOfBudget):
        reduce_modules(problem, module, recorded)
    return apply_plan(module, problem.current, recorded)


def _planned(case: Case, plan: ModulePlan, recorded: ModuleRecording) -> Case:
    assert case.module is not None
    apply_plan(case.module, plan, recorded)
    return case


def reduce_text(reduction: Reduction, text: str) -> str:
    """Return the smallest source whose `build()` gives a program that fails the same way."""
    before = len(text.splitlines())
    reduction.tell("source", before, before)

    problem = reduction.problem(
        text,
        lambda text: functools.partial(case_of_text, text, reduction.case),
        lambda text: f"{reduction.name} {digest(text)}",
        lambda text: reduction.step("source", before, len(text.splitlines()), text),
    )
    try:
        reduce_source(problem)
    except OutOfBudget:
        reduction.notes.append(OVER)
    return problem.current


def case_of_text(text: str, case: Case) -> Case:
    """Return the case of a text's `build()`. Raises whatever the text raises."""
    model, args, kwargs = entry_call(load_module(text))
    return replace(case, target=model, args=args, kwargs=kwargs)
