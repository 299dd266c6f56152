"""A program to reduce, and the oracle that decides whether a smaller one fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import tee
from typing import Generic, TypeVar

from fullgraph.minifier.oracle.candidate import Candidate, Verdict
from fullgraph.minifier.oracle.oracle import Oracle

T = TypeVar("T")


class Problem(Generic[T]):
    """The smallest failing candidate so far, and how to try smaller ones.

    A reducer is a function of a `Problem` that tries candidates until none of them fails in the
    same way.
    """

    def __init__(
        self,
        start: T,
        oracle: Oracle,
        candidate_of: Callable[[T], Candidate],
        on_step: Callable[[T], None] = lambda _: None,
    ) -> None:
        """`candidate_of` makes a graph or text a candidate; equal ones get equal names.

        `on_step` is called with each new `current`.
        """
        self.start = self.current = start
        self.oracle = oracle
        self._candidate_of, self._on_step = candidate_of, on_step

    @property
    def candidate(self) -> Candidate:
        """`current` as a candidate for the oracle."""
        return self._candidate_of(self.current)

    def first(self, candidates: Iterable[T]) -> bool:
        """Find the first of `candidates` that fails in the same way, and make it `current`.

        Returns whether one was found. Candidates are drawn lazily. The next ones run ahead, but the
        first in order wins, so the result does not depend on the number of jobs. Raises
        OutOfBudget.
        """
        asked, candidates = tee(candidates)
        verdicts = self.oracle.verdicts(map(self._candidate_of, asked))
        for verdict, candidate in zip(verdicts, candidates, strict=False):
            if verdict is Verdict.SAME:
                self.current = candidate
                self._on_step(candidate)
                return True
        return False

    def fails(self, candidate: T) -> bool:
        """Return whether `candidate` fails in the same way; keep `current`. Raises OutOfBudget."""
        return next(self.oracle.verdicts([self._candidate_of(candidate)])) is Verdict.SAME

    def where(self) -> str:
        """Return which result of `current` is wrong, such as "output[1]"; "" if unknown."""
        failure = self.oracle.report(self.candidate).result().failure
        return failure.difference.where if failure and failure.difference else ""
