"""A question that is asked while other work goes on, and may end it."""

from __future__ import annotations

from collections.abc import Callable

Answer = Callable[[], str]
"""Waits for a sentence that tells why work is not to go on; "" if nothing speaks against it."""


class ReductionRefused(Exception):
    """The work is not to go on; a sentence tells why."""


class DeferredCheck:
    """A question that may take its time."""

    def __init__(self, ask: Callable[[], Answer] = lambda: str) -> None:
        """`ask` begins to ask, and returns what waits for the answer."""
        self._ask = ask
        self._answer: Answer | None = None

    def begin(self) -> None:
        """Ask, if that was not done before."""
        self._answer = self._answer or self._ask()

    def end(self) -> None:
        """Wait for the answer. Raises Refused."""
        self.begin()
        assert self._answer is not None
        if why := self._answer():
            raise ReductionRefused(why)
