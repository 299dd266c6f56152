"""Progress lines on stderr for steps that take long."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0
"""Seconds that a step must take before it is announced on a stderr that is not a terminal."""


@contextmanager
def announce(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Print `what`, the step of the block, on stderr: at once on a terminal, else after a second.

    On a terminal, the line is cleared at the end.
    """
    if quiet:
        yield
    elif sys.stderr.isatty():
        _overwrite(f"fullgraph: {what} …")
        try:
            yield
        finally:
            _overwrite("")
    else:
        timer = threading.Timer(PATIENCE, _say, (what,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class ProgressLine:
    """Line on a terminal that shows the current step; with `verbose`, a line for each step."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._start = time.monotonic()
        self._verbose = verbose
        self._live = sys.stderr.isatty() and not quiet and not verbose

    def show(self, what: str) -> None:
        """Show the step that begins."""
        line = f"{time.monotonic() - self._start:5.0f} s  {what}"
        if self._verbose:
            print(line, file=sys.stderr, flush=True)
        elif self._live:
            _overwrite(line)

    def keep(self, text: str) -> None:
        """Print a text that stays, above the line of the current step."""
        self.end()
        if self._live or self._verbose:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if self._live:
            _overwrite("")


def _overwrite(line: str) -> None:
    """Replace the current line on the terminal by `line`, cut to the terminal's width."""
    width = shutil.get_terminal_size().columns - 1
    if len(line) > width:
        line = f"{line[: width - 1]}…"
    print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def _say(what: str) -> None:
    print(f"fullgraph: {what} …", file=sys.stderr, flush=True)
