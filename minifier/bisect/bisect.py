"""`bisect`: which stage of the compiler is wrong, and which part of it."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from fullgraph.compiler.display import progress_line
from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import (
    Emit,
    available_memory,
    choose_process,
    has_accelerator,
    has_fork_server,
    has_process_group,
    preload_dynamo,
    preload_folder,
    preload_inductor,
    run_isolated,
    running_fork_server,
)
from fullgraph.compiler.ladder import Backend, Rung
from fullgraph.compiler.private import find_backend, is_local_backend
from fullgraph.compiler.program import parse_program
from fullgraph.compiler.results import Loss
from fullgraph.minifier.oracle.candidate import Candidate
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Kind
from fullgraph.minifier.oracle.oracle import Oracle
from fullgraph.minifier.oracle.sandbox import SECONDS, Modes, Sandbox
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.ladder_run import (
    ReductionRefused,
    check_reproducible,
    find_failing_call,
    rung_of,
)
from fullgraph.minifier.rungs.substitution import run_beside

T = TypeVar("T")

_AT_A_TIME = 4
"""Default number of candidates that run at the same time on one device."""


def bisect(
    model: Callable[..., Any],
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    calls: Sequence[object] = (),
    loss: Loss = None,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    backend: Backend = "inductor",
    tol: float | None = None,
    check_strides: bool = True,
    kind: str | None = None,
    budget: float | None = None,
    jobs: int | None = None,
    seconds: float = SECONDS,
    memory: float | None = None,
    inside: bool = True,
) -> Bisection:
    """Find the first failing rung from eager to `backend`, and the part that causes the failure.

    Args:
        model: the module or function to call.
        inputs: a tensor, a tuple of positional arguments, or a dict of keyword arguments.
        kwargs: keyword arguments beside positional `inputs`.
        calls: further inputs after the first, each in the form of `inputs`, as `explain` takes
            them: a guard that is missing gives a stale result in a later call.
        loss: a callable that returns a scalar for the output, or True for the output's sum; if
            given, gradients are compared too.
        dynamic, mode, options, backend: as torch.compile takes them.
        tol: relative and absolute tolerance; by dtype if not given. A result is no failure if it is
            closer to the result in float64 than eager's is.
        check_strides: whether it is a failure that an output has other strides or aliases than in
            eager.
        kind: "break", "recompile" or "slow": look for this kind of failure instead of any.
        budget: wall time in seconds after which the failure is not localized further; unlimited if
            not given. The ladder always runs to its end.
        jobs: number of candidates that run at a time; one per core if not given.
        seconds: time limit of a candidate; one that takes longer counts as a hang.
        memory: limit of a candidate in GiB; a third of the free memory if not given.
        inside: whether to localize the failure: the faulty part of the rung, and the first wrong
            call of the graph.

    Every candidate runs in a forked child, so nothing changes in this process. If this process has
    initialised a device, a fork server forks instead, and the program is serialized for it. If
    there is a process group, the child computes its collectives without the other ranks.

    Raises FullgraphError if the model cannot be called with the inputs, or if the program cannot be
    serialized. If the model fails in eager, does not fail, or fails only sometimes, `refused` of
    the `Bisection` is a sentence that says so.
    """
    cases, rungs = make_cases(
        model,
        inputs,
        kwargs=kwargs,
        calls=calls,
        loss=loss,
        dynamic=dynamic,
        mode=mode,
        options=options,
        backend=backend,
        tol=tol,
        check_strides=check_strides,
        kind=kind,
        command="bisect",
    )
    start = time.monotonic()
    with progress_line("Bisecting …"):
        found = run_where_forks_are_safe(
            _bisect_cases,
            cases,
            rungs,
            "bisect",
            options=SandboxOptions(seconds, memory, jobs),
            deadline=None if budget is None else start + budget,
            inside=inside,
        )
    return replace(found, seconds=time.monotonic() - start)


def _bisect_cases(
    cases: tuple[Case, ...],
    rungs: tuple[Rung, ...],
    emit: Emit,
    *,
    options: SandboxOptions,
    deadline: float | None,
    inside: bool,
) -> Bisection:
    """Run the calls on the rungs; return the outcomes, with the location of the first failure.

    This process must be safe to fork. `deadline` is in `time.monotonic` seconds; None is no limit.
    `inside`: whether to look for the faulty part of the failing rung and for the first wrong call
    of the graph.
    """
    with options.sandbox() as sandbox:
        oracle = Oracle(sandbox, deadline=deadline)
        case, found = find_failing_call(cases, rungs, oracle)
        if found.failure is not None:
            program = Candidate("program", case, (rung_of(rungs, found.failure),))
            try:
                check_reproducible(program, found.failure, oracle)
                if not oracle.is_out_of_budget():
                    beside = run_beside(case, rung_of(rungs, found.failure), oracle)
                    found = replace(found, beside=beside)
                if inside and not oracle.is_out_of_budget():
                    from fullgraph.minifier.bisect.localize import localize  # loads all reducers

                    found = localize(case, rungs, found, oracle)
            except ReductionRefused as error:
                found = replace(found, refused=str(error))
    return replace(found, calls=oracle.counts.calls)


def make_cases(
    model: Callable[..., Any],
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None,
    calls: Sequence[object],
    loss: Loss,
    dynamic: bool | None,
    mode: str | None,
    options: Mapping[str, Any] | None,
    backend: Backend,
    tol: float | None,
    check_strides: bool,
    kind: str | None,
    command: str,
) -> tuple[tuple[Case, ...], tuple[Rung, ...]]:
    """Return a `Case` for each call and the rungs to run it on, for `bisect` or `minify`.

    `command`, "bisect" or "minify", is named in error messages. Raises FullgraphError for arguments
    that cannot be used.
    """
    subject = parse_program(
        model,
        inputs,
        kwargs=kwargs,
        calls=calls,
        loss=loss,
        backend=backend,
        mode=mode,
        dynamic=dynamic,
        options=options,
        command=command,
    )
    wanted = _parse_kind(kind)
    made = tuple((call.args, call.kwargs) for call in subject.calls)
    case = Case(
        subject.target,
        *made[0],
        loss=loss,
        dynamic=dynamic,
        tol=tol,
        strides=check_strides,
        wanted=wanted,
    )
    rungs = subject.rungs
    if wanted is Kind.BREAK:
        rungs = (rungs[0], replace(rungs[1], fullgraph=True))
    elif wanted is Kind.RECOMPILE:
        rungs = rungs[:2]
    cases = (
        replace(case, args=args, kwargs=kwargs, earlier=made[:number])
        for number, (args, kwargs) in enumerate(made)
    )
    return tuple(cases), rungs


def run_where_forks_are_safe(
    work: Callable[..., T],
    cases: tuple[Case, ...],
    rungs: tuple[Rung, ...],
    command: str,
    on_message: Emit = lambda _: None,
    **arguments: Any,
) -> T:
    """Return `work(cases, rungs, on_message, **arguments)`, called in a process that can fork.

    That is this process if it is safe to fork, otherwise a child of a fork server, to which the
    arguments are serialized. What `work` reports to `on_message` arrives in this process. `command`
    is named in error messages. Raises FullgraphError if neither process is possible, or if the
    child dies.
    """
    where, why = choose_process(cases[-1].objects)
    if where == "fork":
        return work(cases, rungs, on_message, **arguments)
    if has_process_group() or sys.platform != "linux":
        reason = (
            "a process group cannot be handed to another process" if has_process_group() else why
        )
        raise FullgraphError(
            f"{command} tries every candidate in a forked process, and {why}; {reason}: run it in "
            "a process that has not touched the device, or move the model to CPU."
        )
    advice = "define the model in a module that can be imported, or move it to CPU"
    job = functools.partial(work, cases, tuple(map(_known_elsewhere, rungs)), **arguments)
    with running_fork_server(work.__module__, inductor=any(rung.needs_inductor for rung in rungs)):
        try:
            outcome = run_isolated(job, where="fork", on_message=on_message)
        except FullgraphError as refused:
            raise FullgraphError(
                f"{command} works in a fresh process, since {why}. {refused}: {advice}."
            ) from refused
    if outcome.status == "ok":
        return outcome.value  # type: ignore[return-value]
    error = outcome.error
    if error is not None and isinstance(error.exception, FullgraphError):
        raise error.exception
    ending = f"{error.type}: {error.message}" if error else outcome.signal or outcome.status
    raise FullgraphError(
        f"{command} works in a fresh process, since {why}, and that ended with {ending}: {advice}."
    )


def _known_elsewhere(rung: Rung) -> Rung:
    """Return `rung` with a backend that another process can find.

    If only this process has registered the backend's name, its function replaces the name.
    """
    if isinstance(rung.backend, str) and is_local_backend(rung.backend):
        return replace(rung, backend=find_backend(rung.backend))
    return rung


@dataclass(frozen=True)
class SandboxOptions:
    """Limits and modes with which a sandbox runs candidates, from the user's arguments."""

    seconds: float = SECONDS
    memory: float | None = None
    """GiB per candidate; None: a third of the free memory."""
    jobs: int | None = None
    """Candidates that run at a time; None: one per core, but at most 4 if they use a device."""
    threads: int = field(default_factory=torch.get_num_threads)
    modes: Modes = field(default_factory=Modes.current)

    @contextmanager
    def sandbox(self) -> Iterator[Sandbox]:
        """Provide a sandbox whose children inherit the loaded compiler.

        The compiler is not loaded beforehand if that would initialise a device. Raises
        FullgraphError if Inductor is needed and cannot build a kernel.
        """
        free = available_memory() // 3
        cores = os.cpu_count() or 1
        cold = has_fork_server() or has_accelerator()
        if not cold:
            preload_dynamo()
        sandbox = Sandbox(
            preload_folder if cold else _preload_inductor,
            seconds=self.seconds,
            memory=free if self.memory is None else int(self.memory * 2**30),
            jobs=self.jobs or (min(cores, _AT_A_TIME) if has_fork_server() else cores),
            threads=self.threads,
            modes=self.modes,
        )
        try:
            with self.modes.in_force() if has_fork_server() else nullcontext():
                yield sandbox
        finally:
            sandbox.stop()


def _preload_inductor() -> str:
    """Load Inductor by compiling a tiny function; return the folder for what Inductor builds.

    Raises FullgraphError if Inductor cannot build a kernel.
    """
    try:
        return preload_inductor()
    except Exception as error:
        message = str(error).strip().partition("\n")[0]
        raise FullgraphError(
            f"Inductor cannot compile even x + 1 on this machine "
            f"({type(error).__name__}: {message}): fix its C++ compiler first."
        ) from error


def _parse_kind(name: str | None) -> Kind | None:
    """Return the kind of failure that the user named; None if the user named none.

    Raises FullgraphError for an unknown name.
    """
    if name is None:
        return None
    looked_for = (Kind.BREAK, Kind.RECOMPILE, Kind.SLOW)
    if name not in looked_for:
        raise FullgraphError(
            f"kind must be one of {', '.join(looked_for)}, not {name!r}: without it anything that "
            "is wrong is looked for."
        )
    return Kind(name)
