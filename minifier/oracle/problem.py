"""A thing to make smaller while the oracle says that it still fails in the same way."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Verdict(StrEnum):
    """The oracle's verdict on a candidate."""

    SAME = "same failure"
    OTHER = "other failure"
    PASSES = "passes"
    UNRESOLVED = "unresolved"
    """A hang or a full disk, say, where the failure was another: it tells nothing."""


class OutOfBudget(Exception):
    """Raised when the budget is over; `Problem.current` is the best so far."""


@dataclass
class Counts:
    """Cost of a reduction."""

    calls: int = 0
    """Candidates that the oracle was asked about, including speculative ones."""
    cached: int = 0
    steps: int = 0
    """Candidates that became `current`."""
    verdicts: dict[Verdict, int] = field(default_factory=dict)


class Problem(Generic[T]):
    """The smallest candidate so far that fails, and the way to try smaller ones.

    A reducer is a function of a `Problem` that offers candidates until none is accepted."""

    def __init__(
        self,
        start: T,
        ask: Callable[[T], Callable[[], Verdict]],
        key: Callable[[T], str],
        *,
        where: Callable[[T], str] = lambda _: "",
        jobs: int = 1,
        on_step: Callable[[T], None] = lambda _: None,
        spent: Callable[[], bool] = lambda: False,
        known: MutableMapping[str, Verdict] | None = None,
        counts: Counts | None = None,
    ) -> None:
        """`ask` starts asking about a candidate, `jobs` at a time, and returns what waits for the
        verdict; equal candidates have equal `key`s. `where` returns the result in which a failing
        candidate goes wrong, "output[1]", or "".

        `on_step` receives each new `current` at once. `spent` says when to stop. `known` maps keys
        to verdicts, or raises KeyError, and is added to."""
        self.start = self.current = start
        self.counts = counts or Counts()
        self.where = where
        self._ask, self._key, self._jobs = ask, key, max(1, jobs)
        self._on_step, self._spent = on_step, spent
        self._known = {} if known is None else known

    def first(self, candidates: Iterable[T]) -> bool:
        """Make the first of `candidates` that fails in the same way `current`.

        Candidates are drawn lazily and asked about in order; with several jobs the next ones run
        ahead, and the first success in order wins, so that the result is that of one job. Returns
        whether one failed. Raises OutOfBudget."""
        for candidate, verdict in self._answers(candidates):
            if verdict is Verdict.SAME:
                self.current = candidate
                self.counts.steps += 1
                self._on_step(candidate)
                return True
        return False

    def fails(self, candidate: T) -> bool:
        """Return whether `candidate` fails in the same way; `current` stays. Raises OutOfBudget."""
        return next(verdict for _, verdict in self._answers([candidate])) is Verdict.SAME

    def _answers(self, candidates: Iterable[T]) -> Iterator[tuple[T, Verdict]]:
        drawn = iter(candidates)
        ahead: deque[tuple[T, str, Callable[[], Verdict]]] = deque()
        over = False
        try:
            while True:
                for candidate in itertools.islice(drawn, self._jobs - len(ahead)):
                    key = self._key(candidate)
                    known = self._cached(key)
                    over = known is None and self._spent()
                    if over:
                        drawn = iter(())  # what was asked is still worth to know
                        break
                    ahead.append((candidate, key, known or self._begin(candidate)))
                if not ahead:
                    break
                candidate, key, answer = ahead.popleft()
                self._known[key] = verdict = answer()
                self.counts.verdicts[verdict] = self.counts.verdicts.get(verdict, 0) + 1
                yield candidate, verdict
        except GeneratorExit:
            for _, key, answer in ahead:  # asked already: worth to know
                self._known[key] = answer()
            raise
        if over:
            raise OutOfBudget

    def _cached(self, key: str) -> Callable[[], Verdict] | None:
        try:
            verdict = self._known[key]
        except KeyError:
            return None
        self.counts.cached += 1
        return lambda: verdict

    def _begin(self, candidate: T) -> Callable[[], Verdict]:
        self.counts.calls += 1
        return self._ask(candidate)
