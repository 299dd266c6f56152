"""The exception for bad input, that of a backend without an operator, and our own errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

T = TypeVar("T")


class FullgraphError(Exception):
    """Bad input; one sentence says what was wrong, where, and what to do next.

    The command line prints the sentence and exits with code 2. `partial` holds the results so far
    (an `Explanation`), or None.
    """

    def __init__(self, message: str, *, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial


class UnsupportedOperator(FullgraphError):
    """A graph has an operator that a stage of the backend `loops` does not have."""


def contain(work: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """Return what `work` returns; if it raises, what `otherwise` makes of a clause about the error.

    Use it around one row, rule or page, so that an error of ours costs this one and not the report.
    FullgraphError, which is about the user's input, is raised.
    """
    try:
        return work()
    except FullgraphError:
        raise
    except Exception as error:
        return otherwise(describe_own_error(error))


def describe_own_error(error: Exception) -> str:
    """Return a clause that says which error of fullgraph's own code it is, and where."""
    frame = extract_tb(error.__traceback__)[-1]
    place = "/".join(Path(frame.filename).parts[-2:])
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return f"fullgraph itself raised {said} ({place}:{frame.lineno}); please report it"
