"""`compile`: a graph that the compiler gets wrong runs on a lower rung, the others do not."""

from __future__ import annotations

import collections
import inspect
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from fullgraph.compiler.display import Table, View, mimebundle
from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.fallback.graph_check import GraphFn
from fullgraph.compiler.fallback.graph_trial import GraphTrial, example_inputs
from fullgraph.compiler.ladder import (
    LOOPS,
    Backend,
    CompileOptions,
    Rung,
    find_side_rung,
    ladder,
)
from fullgraph.compiler.private import (
    copy_graph_module,
    current_compile_id,
    draws_eager_random_numbers,
    find_graph_origin,
    may_have_size_zero_or_one,
    resolve_backend,
    unwrap_compiled_graph,
)
from fullgraph.compiler.sources import cell_name

CheckWhen = Literal["first", "off"]
_ATTRIBUTE = "_fullgraph_backend"


def compile(
    model: Callable[..., object] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend = "inductor",
    mode: str | None = None,
    options: CompileOptions | None = None,
    check: CheckWhen | None = None,
    check_strides: bool = False,
    seconds: float | None = 600.0,
    log: Callable[[str], object] | None = None,
    **others: Any,
) -> Any:
    """Return what torch.compile returns for the same arguments; also works as a decorator.

    Before a graph is used, it is compiled and run on copies of its inputs, and its outputs,
    gradients and mutations are compared with those of eager. If a fork is safe, this runs in a
    forked child with a limit of `seconds`. A graph that raises, crashes, hangs or differs is
    compiled by the next lower rung, and finally runs in eager; the other graphs keep their rung.
    Next after Inductor is our own backend `loops`, if there is a C++ compiler, then the rest of the
    ladder. `log` receives one message for each such graph (default: a warning of the logger
    "fullgraph"), and `report` lists all graphs. With `check_strides`, an output with other strides
    than in eager also counts as different; Inductor mostly keeps strides. A graph that draws random
    numbers is compiled once more for its check, so that Inductor draws the same ones as eager.

    With `check="off"`, no graph is checked, as in plain torch.compile. By default the same holds
    if a process group is initialised, because ranks must not disagree about the rung;
    `check="first"` checks graphs there, too. `others` are further arguments of torch.compile.
    Raises FullgraphError for arguments that contradict each other.
    """
    if mode is not None and options is not None:
        raise FullgraphError("Give compile() a mode or options, not both.")
    if check not in (None, "first", "off"):
        raise FullgraphError(f'check must be "first", "off" or None, not {check!r}.')
    given = dict(options or {})
    filters = {key: given.pop(key) for key in ("guard_filter_fn",) if key in given}

    def compile_target(target: Callable[..., object]) -> object:
        """Compile `target` with a CheckedBackend; store it on the result for `report`."""
        checked = CheckedBackend(
            backend,
            mode,
            given,
            dynamic,
            check=check,
            strides=check_strides,
            seconds=seconds,
            log=log or _log_warning,
            advice=_minify_advice(target),
        )
        compiled = torch.compile(
            target,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=checked,
            options=filters or None,
            **others,
        )
        if compiled is not target:
            vars(compiled)[_ATTRIBUTE] = checked
        return compiled

    return compile_target if model is None else compile_target(model)


@dataclass(frozen=True)
class ReportedGraph:
    """One graph in the report on a compiled function: where it begins, and which rung runs it."""

    name: str
    """Compile id, as in torch's logs: "0/0"."""
    file: str
    line: int
    function: str
    """Function of the user's in which the graph begins."""
    rung: str
    checked: bool
    """Whether the graph was compared with eager."""
    reasons: tuple[str, ...] = ()
    """Why each higher rung failed, highest first; or why the graph was not compared."""

    def __str__(self) -> str:
        place = f"{self.function} ({self.file}:{self.line})" if self.file else "the graph"
        return f"{self.name} {place}: {self.rung}" + "".join(f"; {why}" for why in self.reasons)


class CompileReport(tuple[ReportedGraph, ...]):
    """The graphs compiled so far, in order."""

    __slots__ = ()

    @property
    def verdict(self) -> str:
        """Return the result in one sentence."""
        if not self:
            return "Nothing is compiled yet."
        rungs = collections.Counter(graph.rung for graph in self)
        counts = ((f"{n} graph{'' if n == 1 else 's'}", rung) for rung, n in rungs.items())
        return "; ".join(f"{graphs} on {rung}" for graphs, rung in counts)

    def __str__(self) -> str:
        return "\n".join([self.verdict, *map(str, self)])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        rows = [
            (
                graph.name,
                f"`{graph.function}` ({graph.file}:{graph.line})" if graph.file else "",
                graph.rung,
                "equals eager" if graph.checked else "not compared",
                "; ".join(graph.reasons),
            )
            for graph in self
        ]
        table = Table(("graph", "of", "runs on", "check", "because"), rows)
        mood = "mixed" if any(graph.checked and graph.reasons for graph in self) else "good"
        return mimebundle(str(self), View(self.verdict, mood, tables=(table,)))


def report(compiled: object) -> CompileReport:
    """Return the graphs compiled so far for `compiled`, a result of `compile`, in order.

    If Dynamo reuses a graph of an earlier `compile` with the same arguments, the graph is in the
    report of the earlier one. Raises FullgraphError if `compiled` is not a result of `compile`.
    """
    backend = getattr(compiled, "__dict__", {}).get(_ATTRIBUTE)
    if backend is None:
        raise FullgraphError("report() takes what fullgraph.compile() returned.")
    return CompileReport(backend.graphs)


class CheckedBackend:
    """Backend of torch.compile that runs each graph on the highest rung that agrees with eager."""

    def __init__(
        self,
        backend: Backend,
        mode: str | None,
        options: CompileOptions,
        dynamic: bool | None,
        *,
        check: CheckWhen | None,
        strides: bool,
        seconds: float | None,
        log: Callable[[str], object],
        advice: str,
    ) -> None:
        self.graphs: list[ReportedGraph] = []
        self._rungs = _descend(
            ladder(backend, mode=None if mode == "default" else mode, options=options)
        )
        self._compilers = [
            resolve_backend(
                rung.backend or "eager", mode=rung.mode, options=rung.options, dynamic=dynamic
            )
            for rung in self._rungs
        ]
        self._check, self._strides, self._seconds = check, strides, seconds
        self._log, self._advice = log, advice
        self._identity = (backend, mode, tuple(sorted(options.items())), dynamic, check, strides)
        self._logged: set[str] = set()

    def __eq__(self, other: object) -> bool:
        """Return whether Dynamo may reuse graphs that `other` compiled."""
        return isinstance(other, CheckedBackend) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity[:2])

    def __deepcopy__(self, memo: object) -> CheckedBackend:
        return self

    def reset(self) -> None:
        """Reset the rungs' backends; torch.compiler.reset calls it."""
        for compiler in self._compilers:
            getattr(compiler, "reset", lambda: None)()

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[object]) -> GraphFn:
        graph = _describe_graph(module)
        if not self._rungs:
            return self._report_rung(module.forward, graph, "dynamo")
        if self._is_off():
            top = self._compilers[0](module, list(inputs))
            return self._report_rung(top, graph, self._rungs[0].name)
        eager = copy_graph_module(module)
        examples = example_inputs(inputs)
        reasons: list[str] = []
        for rung, compiler in zip(self._rungs, self._compilers, strict=True):
            trial = GraphTrial(
                eager,
                self._draws_as_eager(rung),
                self._strides,
                self._seconds,
                with_eager_random=rung.needs_inductor,
            )
            verdict, compiled = trial.compile_and_check(compiler, module, list(inputs), examples)
            if compiled is None:
                reasons.append(f"{rung.name} {verdict.reason}")
                module = copy_graph_module(eager)  # the compiler may have edited the other
                continue
            done = replace(
                graph,
                rung=rung.name,
                checked=verdict.kind == "same",
                reasons=(*reasons, *([verdict.reason] if verdict.reason else [])),
            )
            self.graphs.append(done)
            if reasons:
                self._log_fallback(done, reasons)
            return self._dispatch_on_sizes(compiled, trial, inputs, examples)
        self.graphs.append(done := replace(graph, rung="eager", checked=True, reasons=(*reasons,)))
        self._log_fallback(done, reasons)
        return eager.forward

    def _is_off(self) -> bool:
        """Return whether to skip checks: for `check="off"`, or because other ranks run, too."""
        if self._check is not None:
            return self._check == "off"
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return False
        self._log_once(
            "compile() does not check its graphs: a process group is initialised, and ranks must "
            'not disagree about the rung of a graph. check="first" checks them all the same.'
        )
        return True

    def _draws_as_eager(self, rung: Rung) -> bool:
        """Return whether the rung draws the same random numbers as eager."""
        if rung.name in ("aot_eager", LOOPS.name):
            return True
        return rung.backend == "inductor" and draws_eager_random_numbers(rung.options)

    def _dispatch_on_sizes(
        self,
        compiled: GraphFn,
        trial: GraphTrial,
        inputs: Sequence[object],
        examples: Sequence[object] | None,
    ) -> GraphFn:
        """Return a callable that checks `compiled` at its first call with each class of sizes.

        The classes of a dynamic size are 0, 1, and 2 or more. `examples` are the inputs on which
        the graph was already checked, or None. Returns `compiled` if no check is left to do.
        """
        sizes = [
            i
            for i, thing in enumerate(inputs)
            if isinstance(thing, torch.SymInt) and may_have_size_zero_or_one(thing)
        ]
        if examples is not None and not sizes:
            return compiled
        table: dict[int, GraphFn] = {}
        index, bare = len(self.graphs) - 1, unwrap_compiled_graph(compiled)

        def check_key(key: int, args: Sequence[Any]) -> GraphFn:
            """Check the graph on `args`; store in `table[key]` and return the callable to run."""
            verdict, graph = trial.check(compiled, args), self.graphs[index]
            if not verdict.fails:
                self.graphs[index] = replace(graph, checked=verdict.kind == "same")
                return table.setdefault(key, bare)
            at = "".join(f" with a size of {args[i]}" for i in sizes if args[i] < 2)
            reason = f"{graph.rung}{at} {verdict.reason}"
            reasons = (*graph.reasons, reason)
            self.graphs[index] = replace(graph, rung="eager", checked=True, reasons=reasons)
            self._log_fallback(self.graphs[index], [reason])
            return table.setdefault(key, trial.eager.forward)

        def find_callable(args: Sequence[Any]) -> GraphFn:
            """Return the callable checked for the size classes of `args`; check it if needed."""
            key = 0
            for i in sizes:
                size = args[i]
                key = 3 * key + (size if 0 <= size < 2 else 2)
            return table.get(key) or check_key(key, args)

        usual = 3 ** len(sizes) - 1  # the key of sizes that are neither 0 nor 1

        def call(*args: Any) -> object:
            """Run the callable that was checked for the sizes of `args`."""
            for i in sizes:
                if args[i] < 2:
                    return find_callable(args)(*args)
            return (table.get(usual) or find_callable(args))(*args)

        return call

    def _report_rung(self, compiled: GraphFn, graph: ReportedGraph, rung: str) -> GraphFn:
        """Add the graph, unchecked, to the report with its rung; return `compiled`."""
        self.graphs.append(replace(graph, rung=rung))
        return compiled

    def _log_fallback(self, graph: ReportedGraph, reasons: Sequence[str]) -> None:
        """Log that a graph runs on a lower rung, and why."""
        place = f"{graph.function} ({graph.file}:{graph.line})" if graph.file else "a graph"
        self._log_once(
            f"The graph of {place} runs on {graph.rung}: {'; '.join(reasons)}. {self._advice}"
        )

    def _log_once(self, message: str) -> None:
        """Log a message unless this backend has already logged it."""
        if message not in self._logged:
            self._logged.add(message)
            self._log(message)


def _descend(rungs: Sequence[Rung]) -> list[Rung]:
    """Return the compiling rungs in the order in which a graph is tried: highest first.

    `loops` follows on Inductor's, if it can build kernels.
    """
    highest_first = [rung for rung in reversed(rungs) if rung.backend not in (None, "eager")]
    inductor = [rung for rung in highest_first if rung.needs_inductor]
    side = find_side_rung() if inductor else None
    return [*inductor, *filter(None, [side]), *highest_first[len(inductor) :]]


def _describe_graph(module: torch.fx.GraphModule) -> ReportedGraph:
    """Return the report's entry for the graph being compiled, with "" as its rung.

    It holds the file, line and function of the graph's first user frame.
    """
    file, line, function = find_graph_origin(module)
    return ReportedGraph(current_compile_id(), _relative_path(file), line, function, "", False)


def _relative_path(file: str) -> str:
    """Return `file` relative to the current folder; unchanged if it is not inside."""
    cell = cell_name(file)
    if cell is not None:
        return cell
    with_folder = Path(file)
    here = Path.cwd()
    return str(with_folder.relative_to(here)) if with_folder.is_relative_to(here) else file


def _minify_advice(target: Callable[..., object]) -> str:
    """Return a sentence on how to minify a failure of `target`."""
    call = "fullgraph.minify(model, inputs)"
    named = type(target) if isinstance(target, torch.nn.Module) else target
    name = getattr(named, "__qualname__", "")
    try:
        file = inspect.getsourcefile(inspect.unwrap(named)) or ""
    except (TypeError, OSError):
        file = ""
    if not os.path.isfile(file) or not name.isidentifier():
        return f"To make a small script of it: {call}."
    place = f"{_relative_path(file)}:{name}"
    return f"To make a small script of it: {call}, or `fullgraph minify {place}`."


def _log_warning(message: str) -> None:
    logging.getLogger("fullgraph").warning(message)
