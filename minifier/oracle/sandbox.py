"""Run candidates, each in a forked child with limits on time and memory."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import (
    Emit,
    JobOutcome,
    begin_isolated,
    deferred_interrupts,
    has_fork_server,
    pause_openmp,
    preload_folder,
    process_states,
)
from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private import (
    disable_subsystems,
    inductor_cache_dir,
    limit_subsystem,
    reuse_kernel_builds,
    use_compile_threads,
)
from fullgraph.minifier.oracle.attempt import EAGER, RungOutcome, RungStarted, attempt, time_limit
from fullgraph.minifier.oracle.candidate import Candidate, Report
from fullgraph.minifier.oracle.failure import Failure, Kind

SECONDS = 300.0
"""Default time limit of a candidate, in seconds."""

OUT_OF_MEMORY = "OutOfMemoryError"
BUSY = 0.2
"""Share of its time in which a candidate waited for a processor: its limit says nothing then."""
_BROKEN = ("InvalidCxxCompiler", OUT_OF_MEMORY, "MemoryError", "OSError", "FileNotFoundError")
"""Types of exceptions that are due to the machine rather than to the program."""


class Sandbox:
    """Runs each candidate in a forked child, with limits on time and memory."""

    def __init__(
        self,
        cache: Callable[[], str],
        *,
        seconds: float = SECONDS,
        memory: int | None = None,
        jobs: int = 1,
        threads: int = 1,
        modes: Modes | None = None,
    ) -> None:
        """`cache` returns the folder for Inductor's output, and is called only when that is needed.

        Each candidate may take `seconds`, and `memory` bytes more than this process; at most `jobs`
        run at a time. `threads` and `modes` are those of the program; None: the modes of this
        thread.
        """
        self.seconds = seconds
        self.jobs = jobs
        self._cache = cache
        self._memory = memory
        self._modes = modes or Modes.current()
        self.threads = 1
        """Number of threads with which candidates run; what Inductor compiles depends on it."""
        self._most = threads
        self._stop = threading.Event()
        self._listening: list[threading.Thread] = []

    def load(self, rungs: Sequence[Rung]) -> str | None:
        """Load Inductor if one of `rungs` needs it, so that children inherit it.

        Returns the folder for Inductor's output; None if it is not needed. Raises what `cache`
        raises.
        """
        return self._cache() if any(rung.needs_inductor for rung in rungs) else None

    def limit_to_one_job(self) -> None:
        """Run one candidate at a time from now on."""
        self.jobs = 1

    def use_many_threads(self) -> bool:
        """Run candidates with the program's own thread count from now on.

        Returns whether that changes anything: the count is above one, and OpenMP supports it in a
        forked child.
        """
        if self._most == 1 or not pause_openmp():
            return False
        self.threads = self._most
        return True

    def wait_until_idle(self) -> None:
        """Wait until no candidate runs, and run one at a time from now on."""
        self.limit_to_one_job()
        for thread in self._listening:
            thread.join()

    def use_one_thread(self) -> None:
        """Run candidates with one thread from now on."""
        self.threads = 1

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called; outcomes after that are meaningless."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Stop all running candidates; the sandbox is unusable afterwards."""
        self._stop.set()
        for thread in self._listening:
            thread.join()

    def begin(self, candidate: Candidate) -> Future[Report]:
        """Start a run of a candidate, and return its future report.

        The run ends at the first failing rung, or after all rungs with `every`.
        """
        cache, before = self.load(candidate.rungs), inductor_cache_dir()
        if self.threads > 1:
            pause_openmp()  # this process may have started some since
        job = _CandidateJob(
            candidate,
            self._modes,
            self.threads,
            folders=(cache, before) if cache else None,
            # the whole program takes longest
            building=self.jobs if candidate.every else None,
            kernels=preload_folder(),
        )
        report: Future[Report] = Future()
        with deferred_interrupts():  # else a child could have nobody who listens to it
            try:
                wait = begin_isolated(
                    job,
                    seconds=self.seconds,
                    memory=self._memory,
                    cache=cache,
                    stop=self._stop.is_set,
                )
            except FullgraphError as error:
                report.set_result(Report((), str(error)))
                return report
            thread = threading.Thread(target=_complete, args=(report, wait), daemon=True)
            thread.start()
            self._listening = [each for each in self._listening if each.is_alive()] + [thread]
        return report


@dataclass(frozen=True)
class Modes:
    """Thread-local modes, such as grad mode and autocast, which a child has to set again."""

    facts: Mapping[str, Any]
    """Grad mode and autocast, by name."""
    inference: bool
    """Whether inference mode is on."""

    @classmethod
    def current(cls) -> Modes:
        """Return this thread's modes."""
        facts = {f.name: f.read() for f in process_states() if f.name.startswith(_OF_A_THREAD)}
        return cls(facts, torch.is_inference_mode_enabled())

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Set the modes in this thread of a child process; leave inference mode at the end."""
        for fact in process_states():
            if fact.name in self.facts:
                fact.write(self.facts[fact.name])
        with torch.inference_mode() if self.inference else contextlib.nullcontext():
            yield


_OF_A_THREAD = ("grad mode", "autocast")
"""Beginnings of the names of process states that are local to a thread."""


@dataclass(frozen=True)
class _CandidateJob:
    """What a child process does: run one candidate and emit the outcome of each rung."""

    candidate: Candidate
    modes: Modes
    threads: int
    folders: tuple[str, str | None] | None
    """Folders for Inductor's output and of its earlier builds; None if Inductor is not needed."""
    building: int | None
    """Number of kernels that are built at a time; None: Inductor's default."""
    kernels: str
    """Folder for kernels of `loops`."""

    def __call__(self, emit: Emit) -> None:
        candidate = self.candidate
        os.environ["FULLGRAPH_CACHE_DIR"] = self.kernels
        if self.threads > 1:
            torch.set_num_threads(self.threads)
        with self.modes.in_force(), contextlib.ExitStack() as stack:
            if self.folders:
                stack.enter_context(reuse_kernel_builds(*self.folders))
            if candidate.limit:
                stack.enter_context(limit_subsystem(*candidate.limit, emit))
            stack.enter_context(disable_subsystems(candidate.without))
            if self.building is not None:
                stack.enter_context(use_compile_threads(self.building))
            with time_limit(candidate.eager_limit):
                case = candidate.case()
            attempt(
                case,
                candidate.rungs,
                emit,
                stop=not candidate.every,
                repeat_eager=candidate.repeat_eager,
                eager_limit=candidate.eager_limit,
            )


_EXITS = ("SystemExit", "KeyboardInterrupt")
"""Types of exceptions with which a program ends its process."""


def _complete(report: Future[Report], wait: Callable[[], JobOutcome[None]]) -> None:
    """Wait for a child by calling `wait`, and set the result of the future `report`."""
    try:
        report.set_result(_make_report(wait()))
    except BaseException as error:
        report.set_exception(error)


def _make_report(outcome: JobOutcome[None]) -> Report:
    """Return the report on a candidate, from the outcome of the child process that ran it."""
    ends = tuple(m for m in outcome.messages if isinstance(m, RungOutcome))
    applied = tuple(m for m in outcome.messages if isinstance(m, str))
    broken = next((why for end in ends if (why := _machine_problem(end.failure))), "")
    if outcome.status == "ok":
        return Report(ends, broken, applied)
    began = [m.rung for m in outcome.messages if isinstance(m, RungStarted)]
    if outcome.status == "raised" or len(began) == len(ends):
        assert outcome.error is not None or outcome.status != "raised"
        reason = outcome.error.message if outcome.error else f"the process ended: {outcome.status}"
        if outcome.error and outcome.error.traceback and outcome.error.type in _EXITS:
            reason = f"it raises {': '.join(filter(None, (outcome.error.type, reason)))}"
        return Report(ends, f"It could not be tried: {reason}.")
    if outcome.status == "timeout" and outcome.waiting > BUSY:
        reason = f"it did not end within {outcome.seconds:.0f} s on a machine that was busy"
        return Report((*ends, RungOutcome(began[-1], None, outcome.seconds, unfinished=reason)))
    kind, signature, message = _classify_end(outcome)
    details = outcome.output[-4000:]
    failure = Failure(began[-1], kind, signature, message, details)
    return Report((*ends, RungOutcome(began[-1], failure, outcome.seconds)), applied=applied)


def _classify_end(outcome: JobOutcome[None]) -> tuple[Kind, tuple[str, ...], str]:
    """Return (kind, signature, message) of the failure of a child that was killed or died."""
    if outcome.status == "signal":
        name = outcome.signal or "a signal"
        return Kind.CRASH, (name,), f"the process died of {name}"
    if outcome.status == "timeout":
        return Kind.HANG, (), f"it did not end within {outcome.seconds:.0f} s"
    return Kind.MEMORY, (), "it took more memory than it was given"


def _machine_problem(failure: Failure | None) -> str:
    """Return a sentence if the machine caused a failure: it has no compiler, or a full disk.

    "" if the machine did not.
    """
    if failure is None or failure.kind is not Kind.EXCEPTION:
        return ""
    if failure.signature[0] not in _BROKEN:
        return ""
    if failure.rung == EAGER and not (has_fork_server() and failure.signature[0] == OUT_OF_MEMORY):
        return ""  # else a device was shared with others
    return f"This machine could not run it: {failure.message.partition(chr(10))[0]}."
