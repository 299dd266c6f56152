"""The moment at which work ends, handed down to every run."""

from __future__ import annotations

import math
import time


class TimeUp(Exception):
    """The time was up before a run ended, so nothing is known of how it would have ended."""


class Deadline:
    """The moment at which work ends: `seconds` of wall time from now, or never if that is None."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        """The limit as it was given."""
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._end

    def left(self) -> float | None:
        """Return the seconds that are left, 0 if the time is up; None without a limit."""
        return None if self._end == math.inf else max(0.0, self._end - time.monotonic())

    def within(self, seconds: float) -> Deadline:
        """Return the deadline of a part of the work that has at most `seconds`."""
        left = self.left()
        return Deadline(seconds if left is None else min(seconds, left))
