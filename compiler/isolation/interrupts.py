"""Ctrl-C and time limits around code that must not be cut in the middle, or must be."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType


class OutOfTime(BaseException):
    """The time that `time_limit` gave is over."""


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Keep a Ctrl-C back until the block is over.

    By the handler and not by a signal mask: another thread could take the signal.
    """
    before = signal.getsignal(signal.SIGINT)
    if not _is_main_thread() or before is None:
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came and callable(before):
            before(*came[0])


def can_limit() -> bool:
    """Whether `time_limit` works here: in the main thread, on Unix."""
    return hasattr(signal, "setitimer") and _is_main_thread()


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise OutOfTime in the block after `seconds`, and every second until the block gives in.

    The program's own alarm is set again afterwards with what is left of it. Does nothing where
    `can_limit` says no.
    """
    if seconds is None or not can_limit():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

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
