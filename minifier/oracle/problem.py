"""A thing to make smaller while the oracle says that it still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import tee
from typing import Generic, TypeVar

from fullgraph.minifier.oracle.candidate import Candidate, Verdict
from fullgraph.minifier.oracle.oracle import Oracle

T = TypeVar("T")


class Problem(Generic[T]):
    """The smallest failing candidate so far, and the way to try smaller ones.

    A reducer is a function of a `Problem` that offers candidates until none is accepted.
    """

    def __init__(
        self,
        start: T,
        oracle: Oracle,
        candidate_of: Callable[[T], Candidate],
        on_step: Callable[[T], None] = lambda _: None,
    ) -> None:
        """`candidate_of` returns a graph or text as the oracle runs it; equal ones have equal
        names. `on_step` receives each new `current` at once."""
        self.start = self.current = start
        self.oracle = oracle
        self._candidate_of, self._on_step = candidate_of, on_step

    @property
    def candidate(self) -> Candidate:
        """Return `current` as the oracle runs it."""
        return self._candidate_of(self.current)

    def first(self, candidates: Iterable[T]) -> bool:
        """Make the first of `candidates` that fails in the same way `current`.

        Candidates are drawn lazily and asked about in order; the next ones run ahead, and the
        first success in order wins, so that the result is that of one job. Returns whether one
        failed. Raises OutOfBudget."""
        asked, candidates = tee(candidates)
        verdicts = self.oracle.verdicts(map(self._candidate_of, asked))
        for verdict, candidate in zip(verdicts, candidates, strict=False):
            if verdict is Verdict.SAME:
                self.current = candidate
                self._on_step(candidate)
                return True
        return False

    def fails(self, candidate: T) -> bool:
        """Return whether `candidate` fails in the same way; `current` stays. Raises OutOfBudget."""
        return next(self.oracle.verdicts([self._candidate_of(candidate)])) is Verdict.SAME

    def where(self) -> str:
        """Return which result of `current` is wrong, such as "output[1]"; "" if unknown."""
        failure = self.oracle.report(self.candidate).result().failure
        return failure.difference.where if failure and failure.difference else ""
