"""Defers Ctrl-C for code that must not be interrupted, and limits the time of other code."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType


class TimeLimitExceeded(BaseException):
    """Raised in the block of `time_limit` when its wall time is over."""


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block.

    This does not use a signal mask, because another thread could receive the signal.
    """
    before = signal.getsignal(signal.SIGINT)
    if not _is_main_thread() or before is None:
        yield
        return
    deferred: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: deferred.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if deferred and callable(before):
            before(*deferred[0])


def can_limit_time() -> bool:
    """Return whether `time_limit` works here: on Unix, in the main thread."""
    return hasattr(signal, "setitimer") and _is_main_thread()


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise TimeLimitExceeded in the block after `seconds`, then every second until it ends.

    A timer that the program itself set (`signal.setitimer`) is restored afterwards with its
    remaining time. Does nothing if `seconds` is None or `can_limit_time()` is False.
    """
    if seconds is None or not can_limit_time():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeLimitExceeded

    start = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6), 1.0)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            rest = left - (time.monotonic() - start)
            signal.setitimer(signal.ITIMER_REAL, max(rest, 1e-6), interval)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
