"""The oracle: decides whether a candidate fails like the program."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from fullgraph.minifier.oracle.candidate import Candidate, Report, Verdict
from fullgraph.minifier.oracle.failure import Failure
from fullgraph.minifier.oracle.journal import Journal
from fullgraph.minifier.oracle.sandbox import Sandbox

S = TypeVar("S")
T = TypeVar("T")


class OutOfBudget(Exception):
    """Raised when the budget is spent; `Problem.current` is the smallest candidate so far."""


@dataclass
class Counts:
    """Numbers of programs that ran, and of answers that were already known."""

    calls: int = 0
    """Programs that ran, each in a child process."""
    candidates: int = 0
    """Those of them whose verdict was asked for, including those run ahead of need."""
    cached: int = 0
    """Verdicts that were already known, some from an interrupted run."""


class Oracle:
    """Runs each candidate once, and compares its failure with the program's.

    Reducers are deterministic: a reduction that resumes asks for the same candidates again, and the
    journal has the answers.
    """

    expected: Failure
    """The failure of the program; must be set before verdicts are asked for."""
    eager_limit: float | None = None
    """Time limit, in seconds, of a candidate in eager; None until the program's time is known."""

    def __init__(
        self, sandbox: Sandbox, journal: Journal | None = None, *, deadline: float | None = None
    ) -> None:
        """`deadline` is the end of the budget, in `time.monotonic` seconds."""
        self.sandbox = sandbox
        self.counts = Counts()
        self._journal, self._deadline = journal, deadline
        self._memo: dict[str, Future[Any]] = {}

    def is_out_of_budget(self) -> bool:
        """Return whether the deadline has passed."""
        return self._deadline is not None and time.monotonic() > self._deadline

    def report(self, candidate: Candidate) -> Future[Report]:
        """Return the future report on a candidate; start a run unless it was run before."""
        return self.run_once(self._key(candidate), partial(self._run, candidate))

    def ask(self, candidate: Candidate) -> Future[Verdict]:
        """Return the future verdict on a candidate, even if the budget is spent."""
        self.counts.cached += self._key(candidate) in self._memo
        calls = self.counts.calls
        report = self.report(candidate)
        self.counts.candidates += self.counts.calls - calls
        return _map_future(report, lambda report: report.verdict(self.expected))

    def verdicts(self, candidates: Iterable[Candidate]) -> Iterator[Verdict]:
        """Yield the verdicts on candidates in order; raise OutOfBudget.

        Candidates are drawn lazily. As many run at a time as the sandbox allows: the one whose
        verdict comes next, and those after it. When the iterator is closed, it waits until none of
        them runs.
        """
        drawn = iter(candidates)
        ahead: deque[Future[Verdict]] = deque()
        over = False
        try:
            while True:
                for candidate in islice(drawn, max(1, self.sandbox.jobs) - len(ahead)):
                    over = not self._is_known(self._key(candidate)) and self.is_out_of_budget()
                    if over:
                        drawn = iter(())  # the verdicts on those ahead still count
                        break
                    ahead.append(self.ask(candidate))
                if not ahead:
                    break
                yield ahead.popleft().result()
        except GeneratorExit:
            wait(ahead)
            raise
        if over:
            raise OutOfBudget

    def mark_unresolved(self, candidate: Candidate) -> None:
        """Make the verdict on a candidate UNRESOLVED from now on, because its outcomes vary."""
        self._memo[self._key(candidate)] = _completed(Report((), "It fails only sometimes."))

    def run_once(self, key: str, begin: Callable[[], Future[T]]) -> Future[T]:
        """Return the answer for `key` if it is known; otherwise call `begin` for it.

        A new answer is written to the journal before it is returned.
        """
        if key not in self._memo:
            recalled = self._is_known(key)
            self.counts.cached += recalled
            self._memo[key] = (
                _completed(self._answers[key])
                if recalled
                else _map_future(begin(), partial(self._note, key))
            )
        return self._memo[key]

    @property
    def _answers(self) -> dict[str, Any]:
        return self._journal.answers if self._journal else {}

    def _is_known(self, key: str) -> bool:
        return key in self._memo or key in self._answers

    def _key(self, candidate: Candidate) -> str:
        """Return the candidate's key, with the number of threads if there are several."""
        threads = self.sandbox.threads
        return f"{candidate.key} {threads} threads" if threads > 1 else candidate.key

    def _run(self, candidate: Candidate) -> Future[Report]:
        """Start a run of a candidate in the sandbox, and count it."""
        self.counts.calls += 1
        return self.sandbox.begin(candidate)

    def _note(self, key: str, answer: T) -> T:
        """Return `answer` after writing it to the journal.

        Reports on candidates that could not be run are not written: the machine may be at fault.
        """
        broken = isinstance(answer, Report) and answer.broken  # the machine, which may be fixed
        if self._journal and not broken and not self.sandbox.stopped:
            self._journal.note(key, answer)
        return answer


def _completed(answer: T) -> Future[T]:
    """Return a future that already has the result `answer`."""
    future: Future[T] = Future()
    future.set_result(answer)
    return future


def _map_future(future: Future[S], function: Callable[[S], T]) -> Future[T]:
    """Return a future that gets `function(value)` when `future` gets its value."""
    following: Future[T] = Future()

    def settle(done: Future[S]) -> None:
        """Complete the new future with the result of `function`, or with the exception."""
        try:
            following.set_result(function(done.result()))
        except BaseException as error:
            following.set_exception(error)

    future.add_done_callback(settle)
    return following
