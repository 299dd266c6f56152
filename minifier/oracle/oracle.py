"""The oracle: whether a candidate fails like the program."""

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
    """Raised when the budget is over; `Problem.current` is the best so far."""


@dataclass
class Counts:
    """Number of programs run, of candidates asked about, and of answers from memory."""

    calls: int = 0
    """Programs that ran, each in a process of its own."""
    candidates: int = 0
    """Those of them that were asked for a verdict, including speculative ones."""
    cached: int = 0
    """Verdicts that were known, and answers from an earlier run."""


class Oracle:
    """Runs each candidate once, and compares its failure with the expected one.

    Reducers are deterministic: an interrupted reduction asks the same again, and the journal has
    the answers."""

    expected: Failure
    """The program's failure; set once it is known."""
    eager_limit: float | None = None
    """Seconds that a smaller program may take in eager; set once the program's own are known."""

    def __init__(
        self, sandbox: Sandbox, journal: Journal | None = None, *, deadline: float | None = None
    ) -> None:
        """`deadline` is the end of the budget, in `time.monotonic` seconds."""
        self.sandbox = sandbox
        self.counts = Counts()
        self._journal, self._deadline = journal, deadline
        self._memo: dict[str, Future[Any]] = {}

    def is_out_of_budget(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def report(self, candidate: Candidate) -> Future[Report]:
        """Begin to run a candidate unless its report is known."""
        return self.run_once(self._key(candidate), partial(self._run, candidate))

    def ask(self, candidate: Candidate) -> Future[Verdict]:
        """Begin to find the verdict on a candidate, even if the budget is spent."""
        self.counts.cached += self._key(candidate) in self._memo
        calls = self.counts.calls
        report = self.report(candidate)
        self.counts.candidates += self.counts.calls - calls
        return _map_future(report, lambda report: report.verdict(self.expected))

    def verdicts(self, candidates: Iterable[Candidate]) -> Iterator[Verdict]:
        """Yield the verdicts on candidates in order; raise OutOfBudget.

        Candidates are drawn lazily. As many run at a time as the sandbox allows: the first, and
        the next ones ahead of need. None of these runs any more when the iterator is closed."""
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
        """Treat a candidate as unresolved from now on, because its outcomes vary."""
        self._memo[self._key(candidate)] = _completed(Report((), "It fails only sometimes."))

    def run_once(self, key: str, begin: Callable[[], Future[T]]) -> Future[T]:
        """Return the answer for `key` from memory or the journal; else call `begin`.

        The journal has it before it is used.
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
        """Begin to run a candidate in the sandbox, and count it."""
        self.counts.calls += 1
        return self.sandbox.begin(candidate)

    def _note(self, key: str, answer: T) -> T:
        """Write an answer to the journal, unless the machine was at fault."""
        broken = isinstance(answer, Report) and answer.broken  # the machine, which may be fixed
        if self._journal and not broken and not self.sandbox.stopped:
            self._journal.note(key, answer)
        return answer


def _completed(answer: T) -> Future[T]:
    """Return a completed future."""
    future: Future[T] = Future()
    future.set_result(answer)
    return future


def _map_future(future: Future[S], function: Callable[[S], T]) -> Future[T]:
    """Return the future of `function` applied to a future's result."""
    following: Future[T] = Future()

    def settle(done: Future[S]) -> None:
        """Complete the new future with the result of `function`, or its exception."""
        try:
            following.set_result(function(done.result()))
        except BaseException as error:
            following.set_exception(error)

    future.add_done_callback(settle)
    return following
