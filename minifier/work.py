"""Reducing a failing program: the graph that fails alone, or the source that no graph shows."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import inspect
import re
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fullgraph.compiler import results
from fullgraph.compiler.ladder import RUNGS, Rung
from fullgraph.compiler.private import graphs, settings, trees
from fullgraph.compiler.results import Loss
from fullgraph.compiler.snapshot import snapshot
from fullgraph.minifier.bisection import Bisection
from fullgraph.minifier.case import Case
from fullgraph.minifier.climb import rung_of
from fullgraph.minifier.failure import Failure, Kind
from fullgraph.minifier.graph import Graph
from fullgraph.minifier.journal import Journal
from fullgraph.minifier.later import Later
from fullgraph.minifier.minified import Progress
from fullgraph.minifier.problem import Counts, OutOfBudget, Problem, Verdict
from fullgraph.minifier.program import Unwritable
from fullgraph.minifier.reduce import graph as by_graph
from fullgraph.minifier.reduce import inputs as by_inputs
from fullgraph.minifier.reduce import modules
from fullgraph.minifier.reduce import source as by_source
from fullgraph.minifier.reduce.alone import alone
from fullgraph.minifier.reduce.python.load import call, loaded
from fullgraph.minifier.sandbox import SECONDS, Recalling, Sandbox

_SMALL, _PAUSE = 60, 1.0
"""What is small enough to be shown on the way (operators, lines), and how often (seconds)."""
OURS = "The reducer itself failed: "
OVER = "The budget was over while something could still be taken away."


@dataclass
class Work:
    """What is asked for, and what is known of it by now."""

    case: Case
    rungs: tuple[Rung, ...]
    sandbox: Sandbox
    journal: Journal
    say: Callable[[object], object] = lambda _: None
    deadline: float | None = None
    """When the budget is over, in `time.monotonic` seconds."""
    levels: tuple[graphs.Level, ...] = ("dynamo", "aot")
    """Whose graphs are looked at, in this order."""
    seconds: float = SECONDS
    """What a fresh interpreter is given."""
    show: Callable[[Any], str] = str
    """The script of a graph or a text that was reduced so far."""
    counts: Counts = field(default_factory=Counts)
    notes: list[str] = field(default_factory=list)
    steady: Later = field(default_factory=Later)
    """Whether the failure comes each time."""
    loss: Loss = None
    """What goes backward of a graph: as for the program, if that is needed."""
    _shown: float = 0.0

    def __post_init__(self) -> None:
        self.loss = True if self.case.loss else None

    def levels_of(self, failure: Failure) -> tuple[graphs.Level, ...]:
        """Whose graphs can be had: what makes them must not be what fails."""
        if failure.kind in (Kind.BREAK, Kind.RECOMPILE):
            return ()
        backend = rung_of(self.rungs, failure).backend
        ones_own = backend not in [rung.backend for rung in RUNGS]
        good = {"dynamo": backend != "eager", "aot": ones_own or backend == "inductor"}
        return tuple(level for level in self.levels if good[level])

    def tries(self, name: str) -> Recalling:
        """The sandbox for a part of the work that asks the same each time."""
        return Recalling(self.sandbox, self.journal, name)

    @property
    def cached(self) -> int:
        """How often an answer was known."""
        return self.counts.cached + self.journal.recalled

    def alone(self, graph: Graph) -> Case:
        """A graph as a program of its own."""
        return replace(self.case, target=graph.module, args=graph.inputs, kwargs={}, loss=self.loss)

    def spent(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def hasten(self, found: Bisection) -> None:
        """From now on give a candidate not much more time than the whole program took."""
        ends = [end for end in found.rungs.values() if end is not None]
        hung = any(end.failure is not None and end.failure.kind is Kind.HANG for end in ends)
        took = sum(e.seconds for e in ends if e.failure is None or e.failure.kind is not Kind.HANG)
        least = 5.0 if hung else 30.0
        self.sandbox.seconds = min(self.sandbox.seconds, max(least, 10 * took))

    def step(self, phase: str, before: int, now: int, thing: Any) -> None:
        """Tell of a smaller thing, and now and then of its script."""
        text = ""
        if now <= _SMALL and time.monotonic() > self._shown + _PAUSE:
            with suppress(Unwritable):
                text = self.show(thing)
            self._shown = time.monotonic()
        self.tell(phase, before, now, text)

    def tell(self, phase: str, before: int, now: int, text: str = "") -> None:
        self.say(Progress(phase, before, now, self.sandbox.calls, self.cached, text))


@dataclass(frozen=True)
class Reduced:
    """The smallest graph, and what it needs beside it."""

    graph: Graph
    case: Case
    settings: tuple[str, ...]
    """Names of the settings without which it does not fail."""
    before: int


def reduced(work: Work, failure: Failure) -> Reduced | None:
    """The smallest graph that fails like the program; None if none of its graphs does alone."""
    problem = _begun(work, failure)
    if problem is None:
        return None
    before = problem.start.ops
    needed = tuple(settings.changed())
    try:
        by_graph.reduce(problem)
        work.tell("inputs", before, problem.current.ops)
        by_inputs.reduce(problem)
        by_graph.reduce(problem)
        needed = _needed(work, problem.current, failure)
    except OutOfBudget:
        work.notes.append(OVER)
    except Exception:  # a bug of ours costs the last steps, not the result
        work.notes.append(OURS + traceback.format_exc())
    case = work.alone(problem.current)
    return Reduced(problem.current, case, needed, before)


def _begun(work: Work, failure: Failure) -> Problem[Graph] | None:
    """A graph that fails alone."""
    for level in work.levels_of(failure):
        work.steady.begin()
        graphs = captured(work.case, level)
        found = _first(work, failure, graphs)
        work.steady.end()
        if found is not None:
            return found
    return None


def _first(work: Work, failure: Failure, graphs: Sequence[Graph]) -> Problem[Graph] | None:
    """The first graph that fails. If there is only one, its calls are asked first: a whole graph
    takes longer."""
    found = _single(work, failure, graphs[0]) if len(graphs) == 1 else None
    if found is not None:
        return found
    failing = _failing(work, failure, graphs)
    return None if failing is None else of_graph(work, failing, failure)


def _single(work: Work, failure: Failure, graph: Graph) -> Problem[Graph] | None:
    """The calls of a graph that fail by themselves, and without a loss."""
    loss, work.loss = work.loss, None
    problem = of_graph(work, graph, failure)
    try:
        alone(problem)
    except OutOfBudget:
        pass
    except Exception:
        work.notes.append(OURS + traceback.format_exc())
    if problem.current is not graph:
        return problem
    work.loss = loss
    return None


def of_graph(work: Work, graph: Graph, failure: Failure) -> Problem[Graph]:
    """A graph that fails so, to be made smaller."""
    before = graph.ops
    work.tell("graph", before, before)
    return Problem(
        graph,
        lambda graph: _ask(work, work.alone(graph), failure),
        lambda graph: f"{failure.rung} {work.loss} {graph.key}",
        jobs=work.sandbox.jobs,
        on_step=lambda graph: work.step("graph", before, graph.ops, graph),
        spent=work.spent,
        known=work.journal,
        counts=work.counts,
    )


def failing_graph(work: Work, failure: Failure) -> Graph | None:
    """The first graph of the program that fails alone in the same way."""
    for level in work.levels_of(failure):
        found = _failing(work, failure, captured(work.case, level))
        if found is not None:
            return found
    return None


def _failing(work: Work, failure: Failure, graphs: Sequence[Graph]) -> Graph | None:
    return next((graph for graph in graphs if _fails(work, failure, graph)), None)


def _fails(work: Work, failure: Failure, graph: Graph) -> bool:
    """Whether a graph fails alone; from then on with a loss, where it does only so."""
    for loss in (None, True) if work.loss else (None,):
        key = f"{failure.rung} {loss} {graph.key}"
        work.counts.cached += key in work.journal
        if key not in work.journal:
            work.counts.calls += 1
            case = replace(work.alone(graph), loss=loss)
            work.journal[key] = _ask(work, case, failure)()
        if work.journal[key] is Verdict.SAME:
            work.loss = loss
            return True
    return False


def captured(case: Case, level: graphs.Level = "dynamo") -> list[Graph]:
    """The graphs that a program becomes, each with its inputs as they were: Dynamo's, or those of
    AOTAutograd, forward and backward."""
    before = snapshot(case.objects)

    def run(backend: Callable[..., object]) -> None:
        torch.compiler.reset()
        compiled = torch.compile(case.target, backend=backend, dynamic=case.dynamic)
        output = compiled(*case.args, **case.kwargs)
        if case.loss:
            results.backward(output, case.loss)

    found = []
    try:
        for number in range(graphs.count(run, level)):
            before.restore()
            reached = graphs.reach(run, number, level)
            if reached is not None:
                found.append(Graph(*reached))
    except Exception:
        return found  # the compiler itself fails before that: the source tells more
    finally:
        before.restore()
    return found


def _ask(work: Work, case: Case | Callable[[], Case], failure: Failure) -> Callable[[], Verdict]:
    """Begin to ask whether `case` fails like `failure`, and not one rung down already."""
    place = work.rungs.index(rung_of(work.rungs, failure))
    wait = work.sandbox.ask(case, work.rungs[max(1, place - 1) : place + 1])
    return lambda: wait().verdict(failure)


def _needed(work: Work, graph: Graph, failure: Failure) -> tuple[str, ...]:
    """The settings that are not torch's own and without which `graph` does not fail."""
    case, tries = work.alone(graph), work.tries(f"settings {graph.key}")
    needed = list(settings.changed())
    for name in list(needed):
        rest = [other for other in needed if other != name]
        made = functools.partial(_with, case, rest)
        report = tries.report(made, [rung_of(work.rungs, failure)])
        if report.verdict(failure) is Verdict.SAME:
            needed = rest
    return tuple(needed)


def _with(case: Case, kept: Sequence[str]) -> Case:
    """`case`, in a process in which only the settings `kept` are not torch's own."""
    for name in settings.changed():
        if name not in kept:
            settings.reset(name)
    return case


def reduce_tree(work: Work, failure: Failure) -> Callable[[], None]:
    """Let modules of the program that the failure does not need stand for themselves, in this
    process. Returns what undoes that."""
    module, case = work.case.module, work.case
    if module is None or not module._modules:
        return lambda: None
    before = snapshot(case.objects)
    try:
        recorded = modules.record(module, lambda: case.target(*case.args, **case.kwargs))
    finally:
        before.restore()
    if failure.kind is Kind.RECOMPILE:
        recorded = recorded.of_one_call()

    def planned(plan: modules.Plan) -> Case:
        modules.put(module, plan, recorded)
        return case

    def left(plan: modules.Plan) -> int:
        return sum(not plan.touches(path) for path in recorded.outputs)

    count = len(recorded.outputs)
    work.tell("modules", count, count)
    problem = Problem(
        modules.Plan(),
        lambda plan: _ask(work, functools.partial(planned, plan), failure),
        lambda plan: f"{failure.rung} modules {plan}",
        jobs=work.sandbox.jobs,
        on_step=lambda plan: work.tell("modules", count, left(plan)),
        spent=work.spent,
        known=work.journal,
        counts=work.counts,
    )
    with suppress(OutOfBudget):
        modules.reduce(problem, module, recorded)
    return modules.put(module, problem.current, recorded)


def reduced_text(work: Work, failure: Failure, text: str) -> str:
    """The smallest text whose `build()` gives a program that fails in the same way."""
    before = len(text.splitlines())
    work.tell("source", before, before)
    problem = Problem(
        text,
        lambda text: _ask(work, functools.partial(built, text, work.case), failure),
        lambda text: f"{failure.rung} {digest(text)}",
        jobs=work.sandbox.jobs,
        on_step=lambda text: work.step("source", before, len(text.splitlines()), text),
        spent=work.spent,
        known=work.journal,
        counts=work.counts,
    )
    try:
        by_source.reduce(problem)
    except OutOfBudget:
        work.notes.append(OVER)
    return problem.current


def built(text: str, case: Case) -> Case:
    """The case of what a text's `build()` returns, or names. Raises what the text raises."""
    model, args, kwargs = call(loaded(text))
    return replace(case, target=model, args=args, kwargs=kwargs)


def identity(case: Case, rungs: Sequence[Rung]) -> str:
    """A name for this work, the same when the same command is run again."""
    target = case.target
    kind = type(target) if isinstance(target, torch.nn.Module) else target
    state = case.module.state_dict() if case.module else {}
    leaves = trees.leaves((case.args, dict(case.kwargs), list(state.values())))
    told = [
        getattr(kind, "__module__", ""),
        getattr(kind, "__qualname__", ""),
        _file_of(kind),
        repr([(x.shape, x.dtype) if isinstance(x, torch.Tensor) else type(x) for x in leaves]),
        repr([(rung.name, str(rung.options)) for rung in rungs]),
        repr((case.dynamic, case.tol, case.strides, case.wanted, bool(case.loss))),
        repr(sorted((name, _told(value)) for name, value in settings.changed().items())),
        torch.__version__,
        importlib.metadata.version("fullgraph"),
    ]
    return digest("\n".join(told))


def _told(value: object) -> str:
    """A setting, the same in every process."""
    return getattr(value, "__qualname__", "") or re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _file_of(thing: object) -> str:
    """The text of the file that defines a class or a function; "" if there is none."""
    with suppress(TypeError, OSError):
        return Path(inspect.getfile(thing)).read_text(errors="replace")  # type: ignore[arg-type]
    return ""
