"""Run candidates, each in a forked child with limits on time and memory."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import (
    JobOutcome,
    begin_isolated,
    deferred_interrupts,
    has_fork_server,
    pause_openmp,
    process_states,
)
from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private import (
    Subsystem,
    disable_subsystems,
    inductor_cache_dir,
    limit_subsystem,
    reuse_kernel_builds,
    use_compile_threads,
)
from fullgraph.minifier.oracle.attempt import EAGER, RungOutcome, RungStarted, attempt
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Failure, Kind
from fullgraph.minifier.oracle.journal import Journal
from fullgraph.minifier.oracle.problem import Verdict

T = TypeVar("T")

SECONDS = 300.0
"""Default time limit of a candidate, in seconds."""

OUT_OF_MEMORY = "OutOfMemoryError"
_BROKEN = ("InvalidCxxCompiler", OUT_OF_MEMORY, "MemoryError", "OSError", "FileNotFoundError")
"""Exceptions about the machine rather than the program."""


@dataclass(frozen=True)
class Report:
    """Outcomes of a case on some rungs."""

    ends: tuple[RungOutcome, ...]
    broken: str = ""
    """One sentence on why it could not be tried."""
    applied: tuple[str, ...] = ()
    """What a limited subsystem did, one entry an application."""

    @property
    def failure(self) -> Failure | None:
        """Return the first failure."""
        return next((end.failure for end in self.ends if end.failure is not None), None)

    def verdict(self, wanted: Failure) -> Verdict:
        """Return the verdict on a candidate that should fail like `wanted`."""
        failure = self.failure
        if self.broken or (failure is not None and failure.rung == EAGER):
            return Verdict.UNRESOLVED
        if failure is None:
            return Verdict.PASSES
        if failure.same(wanted):
            return Verdict.SAME
        limits = (Kind.HANG, Kind.MEMORY)
        return Verdict.UNRESOLVED if failure.kind in limits else Verdict.OTHER


class Sandbox:
    """Runs cases, each in a child that the asking thread forks."""

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
        """`cache` returns the folder for Inductor's output and is called before that is needed.
        `seconds`, and bytes of `memory` beyond what the program has, limit each case; at most
        `jobs` run at a time. `threads` and `modes` are the program's own; None: those of this
        thread."""
        self.seconds = seconds
        self.jobs = jobs
        self._cache = cache
        self._memory = memory
        self._modes = modes or Modes.here()
        self.threads = 1
        """With how many each case is tried; what is compiled depends on it."""
        self._most = threads
        self._stop = threading.Event()
        self._listening: list[threading.Thread] = []
        self.calls = 0
        """How many cases were tried."""

    def load(self, rungs: Sequence[Rung]) -> str | None:
        """Load Inductor if one of `rungs` needs it, so that children find it loaded.

        Returns the folder for its output. Raises what the maker of that folder raises."""
        return self._cache() if any(rung.needs_inductor for rung in rungs) else None

    def one_at_a_time(self) -> None:
        """Run no two cases at a time from now on."""
        self.jobs = 1

    def many_threads(self) -> bool:
        """Run cases with the program's own thread count from now on.

        Returns whether it is more than one and OpenMP lets a child have them."""
        if self._most == 1 or not pause_openmp():
            return False
        self.threads = self._most
        return True

    def stop(self) -> None:
        """Stop everything that runs; the sandbox is unusable afterwards."""
        self._stop.set()
        for thread in self._listening:
            thread.join()

    def report(self, case: Case | Callable[[], Case], rungs: Sequence[Rung], **how: Any) -> Report:
        """Return the report of `ask`, waited for."""
        return self.ask(case, rungs, **how)()

    def ask(
        self,
        case: Case | Callable[[], Case],
        rungs: Sequence[Rung],
        *,
        every: bool = False,
        repeat_eager: bool = False,
        limit: tuple[Subsystem, int] | None = None,
        without: Sequence[Subsystem] = (),
    ) -> Callable[[], Report]:
        """Start running `case` in eager and on `rungs`; return a function that waits.

        It ends at the first failure, or with `every` after all rungs. `limit` applies a subsystem
        at most that often; those in `without` are off. A function that makes the case is called in
        the child; if it raises, the case could not be tried."""

        cache, before = self.load(rungs), inductor_cache_dir()
        if self.threads > 1:
            pause_openmp()  # this process may have started some since
        job = _Try(
            case,
            tuple(rungs),
            self._modes,
            self.threads,
            folders=(cache, before) if cache else None,
            # the whole program takes longest
            building=self.jobs if every else None,
            limit=limit,
            without=tuple(without),
            every=every,
            repeat_eager=repeat_eager,
        )
        self.calls += 1
        outcome: Future[JobOutcome[None]] = Future()
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
                broken = Report((), str(error))
                return lambda: broken
            thread = threading.Thread(target=_settle, args=(outcome, wait), daemon=True)
            thread.start()
            self._listening = [each for each in self._listening if each.is_alive()] + [thread]
        return lambda: _report(outcome.result())


@dataclass(frozen=True)
class Modes:
    """Modes of a thread, which neither a new thread nor another process inherits."""

    facts: Mapping[str, Any]
    inference: bool

    @classmethod
    def here(cls) -> Modes:
        """Return this thread's modes."""
        facts = {f.name: f.read() for f in process_states() if f.name.startswith(_OF_A_THREAD)}
        return cls(facts, torch.is_inference_mode_enabled())

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Apply the modes to this thread of a child process."""
        for fact in process_states():
            if fact.name in self.facts:
                fact.write(self.facts[fact.name])
        with torch.inference_mode() if self.inference else contextlib.nullcontext():
            yield


_OF_A_THREAD = ("grad mode", "autocast")


@dataclass(frozen=True)
class _Try:
    """Job of a child, see `Sandbox.ask`."""

    case: Case | Callable[[], Case]
    rungs: tuple[Rung, ...]
    modes: Modes
    threads: int
    folders: tuple[str, str | None] | None
    """For Inductor's output, and of what it built before; None if missing."""
    building: int | None
    """How many kernels are built at a time."""
    limit: tuple[Subsystem, int] | None
    without: tuple[Subsystem, ...]
    every: bool
    repeat_eager: bool

    def __call__(self, say: Callable[[object], None]) -> None:
        if self.threads > 1:
            torch.set_num_threads(self.threads)
        with self.modes.in_force(), contextlib.ExitStack() as stack:
            if self.folders:
                stack.enter_context(reuse_kernel_builds(*self.folders))
            if self.limit:
                stack.enter_context(limit_subsystem(*self.limit, say))
            stack.enter_context(disable_subsystems(self.without))
            if self.building is not None:
                stack.enter_context(use_compile_threads(self.building))
            made = self.case if isinstance(self.case, Case) else self.case()
            attempt(made, self.rungs, say, stop=not self.every, repeat_eager=self.repeat_eager)


class JournaledSandbox:
    """A sandbox that takes answers from the journal when the same work runs again.

    A question is identified by its number among equal ones."""

    def __init__(self, sandbox: Sandbox, journal: Journal, name: str) -> None:
        """`name` identifies this part of the work."""
        self._sandbox, self._journal = sandbox, journal
        self._name = name
        self._asked: Counter[str] = Counter()

    @property
    def jobs(self) -> int:
        """Return `Sandbox.jobs`."""
        return self._sandbox.jobs

    @property
    def threads(self) -> int:
        """Return `Sandbox.threads`."""
        return self._sandbox.threads

    def many_threads(self) -> bool:
        """Do as `Sandbox.many_threads`."""
        return self._sandbox.many_threads()

    def one_at_a_time(self) -> None:
        """Do as `Sandbox.one_at_a_time`."""
        self._sandbox.one_at_a_time()

    def report(self, case: Case | Callable[[], Case], rungs: Sequence[Rung], **how: Any) -> Report:
        """Do as `Sandbox.report`."""
        return self.ask(case, rungs, **how)()

    def ask(
        self, case: Case | Callable[[], Case], rungs: Sequence[Rung], **how: Any
    ) -> Callable[[], Report]:
        """Do as `Sandbox.ask`."""
        part, limit = how.get("limit") or (None, None)
        names = [rung.name for rung in rungs]
        without = [each.name for each in how.get("without", ())]
        question = f"{self._name} {names} {part and part.name} {limit} {without}"
        question += f" {self.threads} threads" if self.threads > 1 else ""
        self._asked[question] += 1
        key = f"{question} {self._asked[question]}"
        known: Report | None = self._journal.answer(key)
        if known is not None:
            return lambda: known
        wait = self._sandbox.ask(case, rungs, **how)

        @functools.cache
        def told() -> Report:
            report = wait()
            if not report.broken:  # that is of the machine, which may be mended
                self._journal.note(key, report)
            return report

        return told


Tries = Sandbox | JournaledSandbox
"""Any object that runs cases."""


def _settle(future: Future[T], wait: Callable[[], T]) -> None:
    try:
        future.set_result(wait())
    except BaseException as error:
        future.set_exception(error)


def _report(outcome: JobOutcome[None]) -> Report:
    ends = tuple(m for m in outcome.messages if isinstance(m, RungOutcome))
    applied = tuple(m for m in outcome.messages if isinstance(m, str))
    broken = next((why for end in ends if (why := _machine(end.failure))), "")
    if outcome.status == "ok":
        return Report(ends, broken, applied)
    began = [m.rung for m in outcome.messages if isinstance(m, RungStarted)]
    if outcome.status == "raised" or len(began) == len(ends):
        assert outcome.error is not None or outcome.status != "raised"
        said = outcome.error.message if outcome.error else f"the process ended: {outcome.status}"
        return Report(ends, f"It could not be tried: {said}.")
    kind, signature, message = _ended(outcome)
    details = outcome.output[-4000:]
    failure = Failure(began[-1], kind, signature, message, details)
    return Report((*ends, RungOutcome(began[-1], failure, outcome.seconds)), applied=applied)


def _ended(outcome: JobOutcome[None]) -> tuple[Kind, tuple[str, ...], str]:
    if outcome.status == "signal":
        name = outcome.signal or "a signal"
        return Kind.CRASH, (name,), f"the process died of {name}"
    if outcome.status == "timeout":
        return Kind.HANG, (), f"it did not end within {outcome.seconds:.0f} s"
    return Kind.MEMORY, (), "it took more memory than it was given"


def _machine(failure: Failure | None) -> str:
    """Return what an exception says about the machine: no compiler, a full disk, no memory."""
    if failure is None or failure.kind is not Kind.EXCEPTION:
        return ""
    if failure.signature[0] not in _BROKEN:
        return ""
    if failure.rung == EAGER and not (has_fork_server() and failure.signature[0] == OUT_OF_MEMORY):
        return ""  # else a device was shared with others
    return f"This machine could not run it: {failure.message.partition(chr(10))[0]}."
