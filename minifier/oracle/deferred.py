"""Deferred check that runs concurrently and can cancel the reduction."""

from __future__ import annotations

from collections.abc import Callable

Answer = Callable[[], str]
"""Waits for the reason to cancel; "" to continue."""


class ReductionRefused(Exception):
    """Raised to cancel a reduction, with one sentence as the reason."""


class DeferredCheck:
    """A check that runs while the reduction continues."""

    def __init__(self, ask: Callable[[], Answer] = lambda: str) -> None:
        """`ask` starts the check and returns a function that waits for its answer."""
        self._ask = ask
        self._answer: Answer | None = None

    def begin(self) -> None:
        """Start the check if it has not started."""
        self._answer = self._answer or self._ask()

    def end(self) -> None:
        """Wait for the answer. Raises ReductionRefused."""
        self.begin()
        assert self._answer is not None
        if why := self._answer():
            raise ReductionRefused(why)
