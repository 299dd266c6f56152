"""Something to make smaller while a question about it is answered with yes."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Verdict(StrEnum):
    """What an oracle says of a candidate."""

    SAME = "same failure"
    OTHER = "other failure"
    PASSES = "passes"
    UNRESOLVED = "unresolved"
    """A hang or a full disk, say, where the failure was another: it tells nothing."""


class OutOfBudget(Exception):
    """The time that was given is over. `Problem.current` is the best so far."""


@dataclass
class Counts:
    """What a reduction cost."""

    calls: int = 0
    """Candidates that an oracle was asked about, those asked ahead of need included."""
    cached: int = 0
    steps: int = 0
    """Candidates that took the place of `current`."""
    verdicts: dict[Verdict, int] = field(default_factory=dict)


class Problem(Generic[T]):
    """The smallest thing so far that still fails, and the way to try smaller ones.

    A reducer is a function of a `Problem` that offers candidates until none is taken.
    """

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
        """`ask` begins to ask about a candidate, `jobs` at a time, and returns what waits for the
        verdict; `key` is equal for equal candidates. `where` tells in which of its results a
        candidate that was asked about goes wrong, as "output[1]"; "" where that is not known.

        `on_step` hears of each new `current` at once. `spent` says when to stop. `known` gives
        verdicts by key, or raises KeyError, and is added to.
        """
        self.start = self.current = start
        self.counts = counts or Counts()
        self.where = where
        self._ask, self._key, self._jobs = ask, key, max(1, jobs)
        self._on_step, self._spent = on_step, spent
        self._known = {} if known is None else known

    def first(self, candidates: Iterable[T]) -> bool:
        """Make the first of `candidates` that still fails in the same way `current`.

        They are drawn lazily, and asked about in order; with several jobs the next ones are asked
        ahead, and the first success in order wins, so the result is that of one job. Returns
        whether there was one. Raises OutOfBudget.
        """
        for candidate, verdict in self._answers(candidates):
            if verdict is Verdict.SAME:
                self.current = candidate
                self.counts.steps += 1
                self._on_step(candidate)
                return True
        return False

    def fails(self, candidate: T) -> bool:
        """Whether `candidate` fails in the same way; `current` stays. Raises OutOfBudget."""
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
