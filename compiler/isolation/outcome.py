"""What came of a callable that ran in isolation, as plain values."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")

Status = Literal["ok", "raised", "signal", "timeout", "memory"]
Where = Literal["fork", "process"]


@dataclass(frozen=True)
class Error:
    """An exception that ended a job."""

    type: str
    """The class's qualified name without its module, as a traceback's last line has it."""
    module: str
    message: str
    traceback: str
    """As Python prints it, from the job down; "" when there is none."""
    exception: BaseException | None = None
    """A copy without traceback; None where the exception cannot be pickled."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """How an isolated job ended, and everything it said until then."""

    status: Status
    where: Where
    seconds: float
    """Wall time of the job, isolation included."""
    value: T | None = None
    """What the job returned, when `status` is "ok"."""
    messages: tuple[object, ...] = ()
    """What the job emitted, in order; all of it, however the job ended."""
    error: Error | None = None
    signal: str | None = None
    """"SIGSEGV", "SIGABRT" …, when `status` is "signal"."""
    output: str = ""
    """What the job wrote to stdout and stderr, C and C++ code included; the middle is cut out
    of what is longer than a megabyte."""
    unrestored: tuple[str, ...] = ()
    """What could not be put back as it was, one sentence each."""


def describe(exception: BaseException, *, outer_frames: int = 0) -> Error:
    """`exception` as a value, without the first `outer_frames` frames of its traceback."""
    frames = exception.__traceback__
    for _ in range(outer_frames):
        frames = frames.tb_next if frames is not None else None
    kind = type(exception)
    try:
        message = str(exception)
        lines = traceback.format_exception(kind, exception, frames)
    except Exception as failure:  # a __str__ of the user's that raises
        message, lines = f"(its message raised {type(failure).__name__})", []
    return Error(kind.__qualname__, kind.__module__, message, "".join(lines), _copy(exception))


def _copy(exception: BaseException) -> BaseException | None:
    """`exception` after a trip through pickle; None if it does not come back the same type."""
    try:
        copy = pickle.loads(pickle.dumps(exception))
    except Exception:
        return None
    return copy if type(copy) is type(exception) else None


def plain(value: T, what: str) -> bytes:
    """`value` pickled. Raises TypeError, naming `what`, if it is not plain data."""
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"{what} is a {type(value).__qualname__} that cannot be pickled, and only plain data "
            f"leaves an isolated job: {error}"
        ) from error


def unpickled(data: bytes) -> Any:
    """What `plain` pickled: a copy that shares nothing with the original."""
    return pickle.loads(data)
