"""What is being reduced, what is known of it by now, and the questions about it."""

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
"""Seconds until a candidate runs that is handed to another process, a device opened and all."""
_SMALL, _PAUSE = 60, 3.0
"""What is small enough to be shown on the way (operators, lines), and how often (seconds)."""


class UnexpectedFailure(Exception):
    """The program does not fail as was expected of it."""


@dataclass
class Reduction:
    """What is asked for, and what is known of it by now.

    A program that takes long is still being tried on its last rung while its graph is reduced
    already: `rung` is where it is expected to fail, and its failure is taken for the one that the
    first smaller program shows there, until it is known. Otherwise is raised where that was wrong.
    """

    case: Case
    rungs: tuple[Rung, ...]
    rung: Rung
    bisection: Callable[[], Bisection]
    """Waits for what is known of the whole program."""
    sandbox: Sandbox
    journal: Journal
    late: Callable[[], bool] = lambda: False
    """Whether `bisection` would wait."""
    say: Callable[[object], object] = lambda _: None
    deadline: float | None = None
    """When the budget is over, in `time.monotonic` seconds."""
    levels: tuple[GraphLevel, ...] = ("dynamo", "aot")
    """Whose graphs are looked at, in this order."""
    seconds: float = SECONDS
    """What a fresh interpreter is given."""
    show: Callable[[Any], str] = str
    """The script of a graph or a text that was reduced so far."""
    counts: Counts = field(default_factory=Counts)
    notes: list[str] = field(default_factory=list)
    loss: Loss = None
    """What goes backward of a graph: as for the program, if that is needed."""
    _guess: Failure | None = None
    _shown: float = 0.0

    def __post_init__(self) -> None:
        self._verdicts = _Verdicts(self)
        self.begin()

    def begin(self) -> None:
        """Take nothing for granted that a candidate showed."""
        self.loss = True if self.case.loss else None
        self.steady = DeferredCheck(self._repeated)
        self._verdicts.clear()
        self._guess = None

    @property
    def failure(self) -> Failure:
        """What is wrong on the rung. Raises Otherwise."""
        return self._guess or self.known

    @cached_property
    def known(self) -> Failure:
        """What is wrong with the whole program on the rung, waited for. Raises Otherwise."""
        found = self.bisection()
        failure = found.failure
        if failure is None or failure.rung != self.rung.name:
            raise UnexpectedFailure
        if failure.kind in NOT_BESIDE and self.sandbox.jobs > 1:
            raise UnexpectedFailure
        self._hasten(found)
        return failure

    def confirm(self) -> None:
        """Wait for the whole program. Raises Otherwise."""
        if not self.known.same(self.failure):
            raise UnexpectedFailure
        self._guess = None

    def verdict(self, report: Report) -> Verdict:
        """What a report says of a candidate. Raises Otherwise."""
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
        """Something to be made smaller while it fails like the program; `case` and `key` are of a
        candidate."""
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
        """Whether `case` fails like the program, be the budget over or not."""
        known = key in self._verdicts or key in self.journal.answers
        self.counts.cached += known
        self.counts.calls += not known
        if not known:
            self._verdicts[key] = self._ask(key, case)()
        return self._verdicts[key] is Verdict.SAME

    def doubt(self, key: str) -> None:
        """From now on a question has no answer: it was not the same each time."""
        self._verdicts[key] = Verdict.UNRESOLVED

    def _ask(self, key: str, case: Case | Callable[[], Case]) -> Callable[[], Verdict]:
        """Begin to ask whether `case` fails like the program, and not one rung down already."""
        place = self.rungs.index(self.rung)
        wait = self.sandbox.ask(case, self.rungs[max(1, place - 1) : place + 1])

        def verdict() -> Verdict:
            report = wait()
            if not report.broken:  # that is of the machine, which may be mended
                self.journal.note(key, report)
            return self.verdict(report)

        return verdict

    def _where(self, key: str) -> str:
        """In which result the answer to a question found something wrong; "" if in none."""
        report: Report | None = self.journal.answers.get(key)
        failure = report and report.failure
        return failure.difference.where if failure and failure.difference else ""

    def check_reproducible(self, case: Case, name: str) -> Callable[[], str]:
        """Begin to try again what fails, see `climb.unsteady`; `name` is of this question."""
        return check_reproducible(case, self.rung, self.failure, self.tries(name))

    def _repeated(self) -> Callable[[], str]:
        self.confirm()
        return self.check_reproducible(self.case, "steady")

    @property
    def possible(self) -> tuple[GraphLevel, ...]:
        """Whose graphs can be had: what makes them must not be what fails."""
        if self.case.wanted in (Kind.BREAK, Kind.RECOMPILE):
            return ()
        backend = self.rung.backend
        ones_own = backend not in [rung.backend for rung in RUNGS]
        good = {"dynamo": backend != "eager", "aot": ones_own or backend == "inductor"}
        return tuple(level for level in self.levels if good[level])

    def tries(self, name: str) -> JournaledSandbox:
        """The sandbox for a part of the work that asks the same each time."""
        return JournaledSandbox(self.sandbox, self.journal, name)

    @property
    def name(self) -> str:
        """What a question begins with: under what it is asked."""
        threads = self.sandbox.threads
        return f"{self.rung.name} {threads} threads" if threads > 1 else self.rung.name

    @property
    def cached(self) -> int:
        """How often an answer was known."""
        return self.counts.cached + self.journal.recalled

    def alone(self, graph: BoundGraph) -> Case:
        """A graph as a program of its own."""
        return replace(self.case, target=graph.module, args=graph.inputs, kwargs={}, loss=self.loss)

    def spent(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _hasten(self, found: Bisection) -> None:
        """From now on give a candidate not much more time than the whole program took."""
        ends = [end for end in found.rungs.values() if end is not None]
        hung = any(end.failure is not None and end.failure.kind is Kind.HANG for end in ends)
        took = sum(e.seconds for e in ends if e.failure is None or e.failure.kind is not Kind.HANG)
        least = 5.0 if hung else 30.0
        begun = _BEGUN if has_fork_server() else 0.0
        self.sandbox.seconds = min(self.sandbox.seconds, begun + max(least, 10 * took))

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


class _Verdicts(dict[str, Verdict]):
    """By question; also what reports say that were there when the work was begun."""

    def __init__(self, work: Reduction) -> None:
        self._work = work

    def __missing__(self, key: str) -> Verdict:
        self[key] = verdict = self._work.verdict(self._work.journal.answers[key])
        return verdict


def _telling(report: Report, rung: Rung) -> bool:
    """Whether a candidate shows on `rung` what may be wrong with the whole program."""
    found = report.failure
    if report.broken or found is None or found.rung != rung.name:
        return False
    return found.kind not in (Kind.HANG, Kind.MEMORY)
