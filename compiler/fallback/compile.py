"""torch.compile with a net: a graph that the compiler gets wrong runs one rung lower, alone."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.fallback.check import Graph
from fullgraph.compiler.fallback.trial import Trial, numbers
from fullgraph.compiler.ladder import Backend, Rung, ladder
from fullgraph.compiler.private import (
    copy_graph_module,
    current_compile_id,
    draws_eager_random_numbers,
    find_graph_origin,
    may_be_zero_or_one,
    resolve_backend,
    unwrap_compiled_graph,
)

Check = Literal["first", "off"]
_ATTRIBUTE = "_fullgraph_net"


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend = "inductor",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    check: Check | None = None,
    check_strides: bool = False,
    seconds: float | None = 600.0,
    log: Callable[[str], object] | None = None,
    **others: Any,
) -> Any:
    """What torch.compile returns for the same arguments; also a decorator, with and without them.

    Before a graph is used it is compiled and run on copies of its inputs, in a forked child where
    that is safe and with a limit of `seconds` there, and compared with eager: outputs, gradients,
    mutation. A graph that raises, crashes, hangs or gives something else is compiled by the next
    lower rung of the ladder, in the end run in eager; the others keep theirs. `log` hears of it
    once (default: a warning of the logger "fullgraph"), and `report` lists all graphs. With
    `check_strides` other strides of an output count, too: Inductor keeps them as a rule only.

    `check="off"` makes it plain torch.compile. So does an initialised process group, unless
    `check="first"` is given: ranks must not disagree about the rung. Raises FullgraphError for
    arguments that do not go together.
    """
    if mode is not None and options is not None:
        raise FullgraphError("Give compile() a mode or options, not both.")
    if check not in (None, "first", "off"):
        raise FullgraphError(f'check must be "first", "off" or None, not {check!r}.')
    given = dict(options or {})
    filters = {key: given.pop(key) for key in ("guard_filter_fn",) if key in given}

    def made(target: Callable[..., Any]) -> Any:
        net = Net(
            backend,
            mode,
            given,
            dynamic,
            check=check,
            strides=check_strides,
            seconds=seconds,
            log=log or _warn,
            command=_command(target),
        )
        compiled = torch.compile(
            target,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=net,
            options=filters or None,
            **others,
        )
        if compiled is not target:
            vars(compiled)[_ATTRIBUTE] = net
        return compiled

    return made if model is None else made(model)


@dataclass(frozen=True)
class GuardedGraph:
    """A graph and the rung it runs on."""

    name: str
    """That of its compilation, as in torch's logs: "0/0"."""
    file: str
    line: int
    function: str
    """Where the user's code of the graph begins."""
    rung: str
    checked: bool
    """Whether it was compared with eager."""
    reasons: tuple[str, ...] = ()
    """Why it is not on a higher rung, the highest first; or why it was not compared."""

    def __str__(self) -> str:
        place = f"{self.function} ({self.file}:{self.line})" if self.file else "the graph"
        return f"{self.name} {place}: {self.rung}" + "".join(f"; {why}" for why in self.reasons)


def report(compiled: Any) -> tuple[GuardedGraph, ...]:
    """The graphs compiled so far for what `compile` returned, in order.

    Graphs that it shares with another one, compiled with the same arguments before, are that
    one's.
    """
    net = getattr(compiled, "__dict__", {}).get(_ATTRIBUTE)
    if net is None:
        raise FullgraphError("report() takes what fullgraph.compile() returned.")
    return tuple(net.graphs)


class Net:
    """The backend that `compile` gives torch.compile."""

    def __init__(
        self,
        backend: Backend,
        mode: str | None,
        options: Mapping[str, Any],
        dynamic: bool | None,
        *,
        check: Check | None,
        strides: bool,
        seconds: float | None,
        log: Callable[[str], object],
        command: str,
    ) -> None:
        self.graphs: list[GuardedGraph] = []
        rungs = ladder(backend, mode=None if mode == "default" else mode, options=options)
        self._rungs = [rung for rung in reversed(rungs) if rung.backend not in (None, "eager")]
        self._compilers = [
            resolve_backend(
                rung.backend or "eager", mode=rung.mode, options=rung.options, dynamic=dynamic
            )
            for rung in self._rungs
        ]
        self._check, self._strides, self._seconds = check, strides, seconds
        self._log, self._command = log, command
        self._same = (backend, mode, tuple(sorted(options.items())), dynamic, check, strides)
        self._logged: set[str] = set()

    def __eq__(self, other: object) -> bool:
        """Whether a graph that the other compiled can be used: Dynamo asks."""
        return isinstance(other, Net) and self._same == other._same

    def __hash__(self) -> int:
        return hash(self._same[:2])

    def __deepcopy__(self, memo: object) -> Net:
        return self

    def reset(self) -> None:
        """Called by torch.compiler.reset, as it calls the backend's own."""
        for compiler in self._compilers:
            getattr(compiler, "reset", lambda: None)()

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Graph:
        graph = _describe(module)
        if not self._rungs:
            return self._note(module.forward, graph, "dynamo")
        if self._is_off():
            top = self._compilers[0](module, list(inputs))
            return self._note(top, graph, self._rungs[0].name)
        eager = copy_graph_module(module)
        known = numbers(inputs)
        reasons: list[str] = []
        for rung, compiler in zip(self._rungs, self._compilers, strict=True):
            trial = Trial(eager, self._same_numbers(rung), self._strides, self._seconds)
            verdict, compiled = trial.compile_and_check(compiler, module, list(inputs), known)
            if compiled is None:
                reasons.append(f"{rung.name} {verdict.reason}")
                module = copy_graph_module(eager)  # a compiler may have edited the other
                continue
            done = replace(
                graph,
                rung=rung.name,
                checked=verdict.kind == "same",
                reasons=(*reasons, *([verdict.reason] if verdict.reason else [])),
            )
            self.graphs.append(done)
            if reasons:
                self._tell(done, reasons)
            return self._by_class(compiled, trial, inputs, known)
        self.graphs.append(done := replace(graph, rung="eager", checked=True, reasons=(*reasons,)))
        self._tell(done, reasons)
        return eager.forward

    def _is_off(self) -> bool:
        if self._check is not None:
            return self._check == "off"
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return False
        self._say(
            "compile() does not check its graphs: a process group is initialised, and ranks must "
            'not disagree about the rung of a graph. check="first" checks them all the same.'
        )
        return True

    def _same_numbers(self, rung: Rung) -> bool:
        """Whether the rung draws the random numbers that eager draws."""
        if rung.name == "aot_eager":
            return True
        return rung.backend == "inductor" and draws_eager_random_numbers(rung.options)

    def _by_class(
        self, compiled: Graph, trial: Trial, inputs: Sequence[Any], known: Sequence[Any] | None
    ) -> Graph:
        """`compiled`, and where its sizes may be 0, 1 or other, checked for each of these."""
        sizes = [
            i
            for i, thing in enumerate(inputs)
            if isinstance(thing, torch.SymInt) and may_be_zero_or_one(thing)
        ]
        if known is not None and not sizes:
            return compiled
        table: dict[int, Graph] = {}
        index, bare = len(self.graphs) - 1, unwrap_compiled_graph(compiled)

        def first(key: int, args: Sequence[Any]) -> Graph:
            verdict, graph = trial.check(compiled, args), self.graphs[index]
            if not verdict.fails:
                self.graphs[index] = replace(graph, checked=verdict.kind == "same")
                return table.setdefault(key, bare)
            at = "".join(f" with a size of {args[i]}" for i in sizes if args[i] < 2)
            reason = f"{graph.rung}{at} {verdict.reason}"
            reasons = (*graph.reasons, reason)
            self.graphs[index] = replace(graph, rung="eager", checked=True, reasons=reasons)
            self._tell(self.graphs[index], [reason])
            return table.setdefault(key, trial.eager.forward)

        def pick(args: Sequence[Any]) -> Graph:
            key = 0
            for i in sizes:
                size = args[i]
                key = 3 * key + (size if 0 <= size < 2 else 2)
            return table.get(key) or first(key, args)

        usual = 3 ** len(sizes) - 1  # the key of sizes that are neither 0 nor 1

        def call(*args: Any) -> Any:
            for i in sizes:
                if args[i] < 2:
                    return pick(args)(*args)
            return (table.get(usual) or pick(args))(*args)

        return call

    def _note(self, compiled: Graph, graph: GuardedGraph, rung: str) -> Graph:
        self.graphs.append(replace(graph, rung=rung))
        return compiled

    def _tell(self, graph: GuardedGraph, reasons: Sequence[str]) -> None:
        place = f"{graph.function} ({graph.file}:{graph.line})" if graph.file else "a graph"
        self._say(
            f"The graph of {place} runs on {graph.rung}: {'; '.join(reasons)}. {self._command}"
        )

    def _say(self, message: str) -> None:
        if message not in self._logged:
            self._logged.add(message)
            self._log(message)


def _describe(module: torch.fx.GraphModule) -> GuardedGraph:
    file, line, function = find_graph_origin(module)
    return GuardedGraph(current_compile_id(), _near(file), line, function, "", False)


def _near(file: str) -> str:
    """A path, from the current folder where it lies inside."""
    with_folder = Path(file)
    here = Path.cwd()
    return str(with_folder.relative_to(here)) if with_folder.is_relative_to(here) else file


def _command(target: Callable[..., Any]) -> str:
    """How to minify what goes wrong in `target`, as a sentence."""
    call = "fullgraph.minify(model, inputs)"
    named = type(target) if isinstance(target, torch.nn.Module) else target
    name = getattr(named, "__qualname__", "")
    try:
        file = inspect.getsourcefile(inspect.unwrap(named)) or ""
    except (TypeError, OSError):
        file = ""
    if not os.path.isfile(file) or not name.isidentifier():
        return f"To make a small script of it: {call}."
    return f"To make a small script of it: {call}, or `fullgraph minify {_near(file)}:{name}`."


def _warn(message: str) -> None:
    logging.getLogger("fullgraph").warning(message)
