"""Stages of a reduction: of a graph that fails alone, of the modules, of the source."""

from __future__ import annotations

import functools
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
from fullgraph.minifier.oracle.candidate import Candidate, Verdict
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Kind
from fullgraph.minifier.oracle.identity import digest
from fullgraph.minifier.oracle.oracle import OutOfBudget
from fullgraph.minifier.oracle.problem import Problem
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
from fullgraph.minifier.reduce.reduction import Reduction
from fullgraph.minifier.reduce.source.entry_point import entry_calls, load_module
from fullgraph.minifier.reduce.source.passes import reduce_source
from fullgraph.minifier.rungs.ladder_run import ReductionRefused, check_reproducible, run_again

OVER = "The budget was over while something could still be taken away."


@dataclass(frozen=True)
class Reduced:
    """Result of reducing graphs: the smallest one that fails, and the settings that it needs."""

    graph: BoundGraph
    candidate: Candidate
    """The graph as a candidate for the oracle."""
    settings: tuple[str, ...]
    """Names of the settings without which the graph does not fail."""
    before: int
    """Number of calls before the reduction."""


def find_smallest_graph(reduction: Reduction) -> Reduced | None:
    """Return the smallest graph that fails like the program, with its size before the reduction.

    None if no graph of the program fails alone. Raises ReductionRefused if the program does not
    fail each time.
    """
    problem = _find_problem(reduction)
    if problem is None:
        return None
    before = problem.start.ops
    needed = tuple(non_default_config())
    try:
        with tolerate_errors(reduction, "graphs"):
            reduce_graph(problem)
        reduction.on_progress("inputs", before, problem.current.ops)
        with tolerate_errors(reduction, "inputs"):
            reduce_inputs(problem)
        with tolerate_errors(reduction, "graphs"):
            reduce_graph(problem)
        with tolerate_errors(reduction, "settings"):
            needed = _find_needed_settings(problem)
    except OutOfBudget:
        reduction.notes.append(OVER)
    return Reduced(problem.current, problem.candidate, needed, before)


@contextmanager
def tolerate_errors(reduction: Reduction, reducer: str) -> Iterator[None]:
    """Catch an exception that a reducer raises in the block, and add a note on it to `reduction`.

    `reducer` is what the note calls the reducer: "graphs". What it had removed before is kept.
    OutOfBudget is not caught.
    """
    try:
        yield
    except OutOfBudget:
        raise
    except Exception as error:
        reduction.skip(reducer, error)


def _find_problem(reduction: Reduction) -> Problem[BoundGraph] | None:
    """Return a graph of the program that fails alone, as the problem to reduce; None if none does.

    Dynamo's graphs with torch.func transforms are tried last, because AOTAutograd's graphs have the
    transforms already applied. Raises ReductionRefused if the program does not fail each time.
    """
    levels = list(reduction.possible)
    while levels:
        level = levels.pop(0)
        found = capture_graphs(reduction.case, level)
        if levels and any(has_functorch_transform(graph.module) for graph in found):
            levels.append(level)
            continue
        problem = _find_failing_problem(reduction, found)
        if problem is not None:
            return problem
    return None


def _find_failing_problem(
    reduction: Reduction, graphs: Sequence[BoundGraph]
) -> Problem[BoundGraph] | None:
    """Return the first of `graphs` that fails alone, as the problem to reduce; None if none does.

    A single graph's calls are tried alone first: a whole graph takes longer, and so does the check
    that the program fails each time. Raises ReductionRefused if the program does not fail each
    time.
    """
    found = _isolate_failing_calls(reduction, graphs[0]) if len(graphs) == 1 else None
    if found is not None:
        return found
    oracle = reduction.oracle
    run_again(reduction.program, oracle)  # beside the graphs
    failing = find_failing_graph(reduction, graphs)
    check_reproducible(reduction.program, oracle.expected, oracle)
    return failing


def _isolate_failing_calls(reduction: Reduction, graph: BoundGraph) -> Problem[BoundGraph] | None:
    """Return the calls of `graph` that fail alone, as the problem to reduce further.

    They run without a loss. None if no call fails alone, or if the calls do not fail each time.
    """
    problem = graph_problem(reduction, graph, None)
    with suppress(OutOfBudget), tolerate_errors(reduction, "single calls"):
        isolate_calls(problem)
    if problem.current is graph:
        return None
    try:
        check_reproducible(problem.candidate, reduction.oracle.expected, reduction.oracle)
    except ReductionRefused:
        reduction.oracle.mark_unresolved(problem.candidate)
        return None
    return problem


def graph_problem(reduction: Reduction, graph: BoundGraph, loss: Loss) -> Problem[BoundGraph]:
    """Return the problem of making `graph` smaller while it fails like the program.

    Each candidate runs backward, too, from the scalar that `loss` gives; None: it does not.
    """
    before = graph.ops
    reduction.on_progress("graph", before, before)

    def candidate(graph: BoundGraph) -> Candidate:
        """Return a graph as a candidate for the oracle."""
        case = replace(
            reduction.case, target=graph.module, args=graph.inputs, kwargs={}, earlier=()
        )
        case = replace(case, loss=loss)
        return reduction.candidate(f"graph {loss} {graph.key}", case)

    def on_step(graph: BoundGraph) -> None:
        """Report the progress."""
        write = functools.partial(reduction.script_of, graph)
        reduction.on_progress("graph", before, graph.ops, write)

    return Problem(graph, reduction.oracle, candidate, on_step)


def find_failing_graph(
    reduction: Reduction, graphs: Sequence[BoundGraph]
) -> Problem[BoundGraph] | None:
    """Return the first of `graphs` that fails alone, as the problem to reduce; None if none does.

    Each graph is tried without a loss first, then with one if the program has a loss.
    """
    for graph in graphs:
        for loss in (None, True) if reduction.case.loss else (None,):
            problem = graph_problem(reduction, graph, loss)
            if reduction.oracle.ask(problem.candidate).result() is Verdict.SAME:
                return problem
    return None


def capture_graphs(case: Case, level: GraphLevel = "dynamo") -> list[BoundGraph]:
    """Return a program's graphs at `level`, each with the inputs with which it was called.

    "dynamo" means Dynamo's graphs, "aot" AOTAutograd's forward and backward graphs. If the compiler
    fails, the graphs captured before that are returned.
    """
    before = snapshot(case.objects)

    def run(backend: Callable[..., object]) -> None:
        """Compile the program with `backend` and call it."""
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


def _find_needed_settings(problem: Problem[BoundGraph]) -> tuple[str, ...]:
    """Return the names of the non-default settings that the failure needs."""
    oracle, candidate = problem.oracle, problem.candidate
    case = candidate.case()
    needed = list(non_default_config())
    for name in list(needed):
        rest = [other for other in needed if other != name]
        changed = replace(
            candidate,
            name=f"{candidate.name} with settings {rest}",
            program=functools.partial(_with_settings, case, rest),
            rungs=candidate.rungs[-1:],
        )
        if oracle.report(changed).result().verdict(oracle.expected) is Verdict.SAME:
            needed = rest
    return tuple(needed)


def _with_settings(case: Case, kept: Sequence[str]) -> Case:
    """Reset every setting whose name is not in `kept`, in this process, and return `case`.

    A candidate's child does this before it runs the case.
    """
    for name in non_default_config():
        if name not in kept:
            reset_config(name)
    return case


def replace_modules_by_stubs(reduction: Reduction) -> Callable[[], None]:
    """Replace by stubs, in this process, the modules that the failure does not need.

    Returns a function that puts them back.
    """
    module, case = reduction.case.module, reduction.case
    if module is None or not module._modules:
        return lambda: None
    before = snapshot(case.objects)
    try:
        recorded = record_modules(module, lambda: case.target(*case.args, **case.kwargs))
    finally:
        before.restore()
    if reduction.oracle.expected.kind is Kind.RECOMPILE:
        recorded = recorded.called_once()

    def left(plan: ModulePlan) -> int:
        return sum(not plan.touches(path) for path in recorded.outputs)

    count = len(recorded.outputs)
    reduction.on_progress("modules", count, count)
    problem = Problem(
        ModulePlan(),
        reduction.oracle,
        lambda plan: reduction.candidate(
            f"modules {plan}", functools.partial(_with_stubs, case, plan, recorded)
        ),
        lambda plan: reduction.on_progress("modules", count, left(plan)),
    )
    with suppress(OutOfBudget):
        reduce_modules(problem, module, recorded)
    return apply_plan(module, problem.current, recorded)


def _with_stubs(case: Case, plan: ModulePlan, recorded: ModuleRecording) -> Case:
    """Replace modules of a case by stubs, in place, and return the case.

    A candidate's child does this before it runs the case. `recorded` has what the stubs return.
    """
    assert case.module is not None
    apply_plan(case.module, plan, recorded)
    return case


def reduce_text(reduction: Reduction, text: str) -> str:
    """Return the smallest version of `text` whose program fails in the same way."""
    before = len(text.splitlines())
    reduction.on_progress("source", before, before)

    def on_step(text: str) -> None:
        """Report the progress."""
        write = functools.partial(reduction.script_of, text)
        reduction.on_progress("source", before, len(text.splitlines()), write)

    candidate = functools.partial(source_candidate, reduction)
    problem = Problem(text, reduction.oracle, candidate, on_step)
    try:
        with tolerate_errors(reduction, "source"):
            reduce_source(problem, reduction.skip)
    except OutOfBudget:
        reduction.notes.append(OVER)
    return problem.current


def source_candidate(reduction: Reduction, text: str) -> Candidate:
    """Return a source text as a candidate for the oracle."""
    program = functools.partial(case_of_text, text, reduction.case)
    return reduction.candidate(f"source {digest(text)}", program)


def case_of_text(text: str, case: Case) -> Case:
    """Return `case` with the model and inputs that `text` makes. Raises what the text raises."""
    model, calls = entry_calls(load_module(text))
    *earlier, (args, kwargs) = calls
    return replace(case, target=model, args=args, kwargs=kwargs, earlier=tuple(earlier))
