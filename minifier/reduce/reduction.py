"""State of one reduction: the case, the oracle, and what is known so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from fullgraph.compiler.isolation import has_fork_server
from fullgraph.compiler.ladder import RUNGS, Rung
from fullgraph.compiler.private import GraphLevel
from fullgraph.compiler.results import Loss
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.graphs import BoundGraph
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.deferred import DeferredCheck
from fullgraph.minifier.oracle.failure import NOT_BESIDE, Failure, Kind
from fullgraph.minifier.oracle.journal import Journal
from fullgraph.minifier.oracle.problem import Counts, Problem, Verdict
from fullgraph.minifier.oracle.progress import Progress
from fullgraph.minifier.oracle.sandbox import SECONDS, JournaledSandbox, Report, Sandbox
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.ladder_run import check_reproducible

T = TypeVar("T")

_BEGUN = 60.0
"""Seconds until a candidate starts in another process that opens a device."""
_SMALL, _PAUSE = 60, 3.0
"""What is small enough to be shown on the way (operators, lines), and how often (seconds)."""


class UnexpectedFailure(Exception):
    """The program does not fail as expected."""


@dataclass
class Reduction:
    """The program under reduction with its sandbox, journal and verdicts.

    While a slow program still runs on its last rung, its graph is already being reduced: `rung` is
    where it is expected to fail, and the first smaller program's failure there is assumed to be its
    own until it is known. UnexpectedFailure is raised where that was wrong."""

    case: Case
    rungs: tuple[Rung, ...]
    rung: Rung
    bisection: Callable[[], Bisection]
    """Waits for the whole program's bisection."""
    sandbox: Sandbox
    journal: Journal
    late: Callable[[], bool] = lambda: False
    """Whether `bisection` would wait."""
    say: Callable[[object], object] = lambda _: None
    deadline: float | None = None
    """End of the budget, in `time.monotonic` seconds."""
    levels: tuple[GraphLevel, ...] = ("dynamo", "aot")
    """The graphs to reduce, in order of preference."""
    seconds: float = SECONDS
    """Time limit of a fresh interpreter."""
    show: Callable[[Any], str] = str
    """The script of a reduced graph or text."""
    counts: Counts = field(default_factory=Counts)
    notes: list[str] = field(default_factory=list)
    loss: Loss = None
    """The loss of a graph: the program's, if it is needed."""
    _guess: Failure | None = None
    _shown: float = 0.0

    def __post_init__(self) -> None:
        self._verdicts = _Verdicts(self)
        self.begin()

    def begin(self) -> None:
        """Forget everything that candidates showed."""
        self.loss = True if self.case.loss else None
        self.steady = DeferredCheck(self._repeated)
        self._verdicts.clear()
        self._guess = None

    @property
    def failure(self) -> Failure:
        """Return the failure on the rung. Raises UnexpectedFailure."""
        return self._guess or self.known

    @cached_property
    def known(self) -> Failure:
        """Wait for the whole program's failure on the rung. Raises UnexpectedFailure."""
        found = self.bisection()
        failure = found.failure
        if failure is None or failure.rung != self.rung.name:
            raise UnexpectedFailure
        if failure.kind in NOT_BESIDE and self.sandbox.jobs > 1:
            raise UnexpectedFailure
        self._hasten(found)
        return failure

    def confirm(self) -> None:
        """Wait for the whole program. Raises UnexpectedFailure."""
        if not self.known.same(self.failure):
            raise UnexpectedFailure
        self._guess = None

    def verdict(self, report: Report) -> Verdict:
        """Return a report's verdict on a candidate. Raises UnexpectedFailure."""
        if not self.late():
            self.confirm()
        elif self._guess is None and _telling(report, self.rung):
            self._guess = report.failure
        if report.failure is None and not report.broken:
            return Verdict.PASSES  # whatever the whole program does
        return report.verdict(self.failure)

    def problem(
        self,
        start: T,
        case: Callable[[T], Case | Callable[[], Case]],
        key: Callable[[T], str],
        on_step: Callable[[T], None],
    ) -> Problem[T]:
        """Return a problem to reduce; `case` and `key` map a candidate to its case and key."""
        return Problem(
            start,
            lambda candidate: self._ask(key(candidate), case(candidate)),
            key,
            where=lambda candidate: self._where(key(candidate)),
            jobs=self.sandbox.jobs - self.late(),  # the whole program is one
            on_step=on_step,
            spent=self.spent,
            known=self._verdicts,
            counts=self.counts,
        )

    def fails(self, key: str, case: Case) -> bool:
        """Return whether `case` fails like the program, regardless of the budget."""
        known = key in self._verdicts or key in self.journal.answers
        self.counts.cached += known
        self.counts.calls += not known
        if not known:
            self._verdicts[key] = self._ask(key, case)()
        return self._verdicts[key] is Verdict.SAME

    def doubt(self, key: str) -> None:
        """Mark a question as unresolved from now on: its answers varied."""
        self._verdicts[key] = Verdict.UNRESOLVED

    def _ask(self, key: str, case: Case | Callable[[], Case]) -> Callable[[], Verdict]:
        """Start asking whether `case` fails like the program and passes one rung down."""
        place = self.rungs.index(self.rung)
        wait = self.sandbox.ask(case, self.rungs[max(1, place - 1) : place + 1])

        def verdict() -> Verdict:
            report = wait()
            if not report.broken:  # that is of the machine, which may be mended
                self.journal.note(key, report)
            return self.verdict(report)

        return verdict

    def _where(self, key: str) -> str:
        """Return the result in which a known failure shows; "" if none."""
        report: Report | None = self.journal.answers.get(key)
        failure = report and report.failure
        return failure.difference.where if failure and failure.difference else ""

    def check_reproducible(self, case: Case, name: str) -> Callable[[], str]:
        """Start running a failure again, see `ladder_run`; `name` identifies the question."""
        return check_reproducible(case, self.rung, self.failure, self.tries(name))

    def _repeated(self) -> Callable[[], str]:
        self.confirm()
        return self.check_reproducible(self.case, "steady")

    @property
    def possible(self) -> tuple[GraphLevel, ...]:
        """Return the levels whose graphs can be captured without the failing stage."""
        if self.case.wanted in (Kind.BREAK, Kind.RECOMPILE):
            return ()
        backend = self.rung.backend
        ones_own = backend not in [rung.backend for rung in RUNGS]
        good = {"dynamo": backend != "eager", "aot": ones_own or backend == "inductor"}
        return tuple(level for level in self.levels if good[level])

    def tries(self, name: str) -> JournaledSandbox:
        """Return the sandbox for a part of the reduction that asks the same each time."""
        return JournaledSandbox(self.sandbox, self.journal, name)

    @property
    def name(self) -> str:
        """Return the prefix of a question's key: the rung and the thread count."""
        threads = self.sandbox.threads
        return f"{self.rung.name} {threads} threads" if threads > 1 else self.rung.name

    @property
    def cached(self) -> int:
        """Return how many verdicts were already known."""
        return self.counts.cached + self.journal.recalled

    def alone(self, graph: BoundGraph) -> Case:
        """Return a graph as a case of its own."""
        return replace(self.case, target=graph.module, args=graph.inputs, kwargs={}, loss=self.loss)

    def spent(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _hasten(self, found: Bisection) -> None:
        """Limit a candidate's time to little more than the whole program took."""
        ends = [end for end in found.rungs.values() if end is not None]
        hung = any(end.failure is not None and end.failure.kind is Kind.HANG for end in ends)
        took = sum(e.seconds for e in ends if e.failure is None or e.failure.kind is not Kind.HANG)
        least = 5.0 if hung else 30.0
        begun = _BEGUN if has_fork_server() else 0.0
        self.sandbox.seconds = min(self.sandbox.seconds, begun + max(least, 10 * took))

    def step(self, phase: str, before: int, now: int, thing: Any) -> None:
        """Report a smaller candidate, and now and then its script."""
        text = ""
        if now <= _SMALL and time.monotonic() > self._shown + _PAUSE:
            with suppress(Unwritable):
                text = self.show(thing)
            self._shown = time.monotonic()
        self.tell(phase, before, now, text)

    def tell(self, phase: str, before: int, now: int, text: str = "") -> None:
        self.say(Progress(phase, before, now, self.sandbox.calls, self.cached, text))


class _Verdicts(dict[str, Verdict]):
    """Verdicts by key, including those of reports from an earlier run."""

    def __init__(self, work: Reduction) -> None:
        self._work = work

    def __missing__(self, key: str) -> Verdict:
        self[key] = verdict = self._work.verdict(self._work.journal.answers[key])
        return verdict


def _telling(report: Report, rung: Rung) -> bool:
    """Return whether a candidate shows on `rung` what may be the whole program's failure."""
    found = report.failure
    if report.broken or found is None or found.rung != rung.name:
        return False
    return found.kind not in (Kind.HANG, Kind.MEMORY)
