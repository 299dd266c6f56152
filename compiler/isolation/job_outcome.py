"""Outcome of an isolated job: result, messages, error, output."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T_co = TypeVar("T_co", covariant=True)

JobStatus = Literal["ok", "raised", "signal", "timeout", "memory"]
JobProcess = Literal["fork", "process"]
"""Where a job runs: in a forked child, or in this process."""


@dataclass(frozen=True)
class JobError:
    """An exception that ended a job: its class, module, message and traceback, and a copy of it."""

    type: str
    """Qualified name of the class without its module, as in the last line of a traceback."""
    module: str
    message: str
    traceback: str
    """As Python prints it, from the job's frame inwards; "" if there is none."""
    exception: BaseException | None = None
    """A copy without traceback; None if the exception cannot be pickled."""


@dataclass(frozen=True)
class JobOutcome(Generic[T_co]):
    """How an isolated job ended, and everything it emitted before."""

    status: JobStatus
    where: JobProcess
    seconds: float
    """Wall time of the job, isolation included."""
    waiting: float = 0.0
    """Share of the last half of its time in which a job that is out of time waited for a processor.

    A job that sleeps waits for none."""
    value: T_co | None = None
    """What the job returned, if `status` is "ok"."""
    messages: tuple[object, ...] = ()
    """What the job emitted, in order, however the job ended."""
    error: JobError | None = None
    signal: str | None = None
    """"SIGSEGV", "SIGABRT" …, if `status` is "signal"."""
    output: str = ""
    """Text that the job wrote to stdout and stderr, also from C and C++.

    If it is longer than a megabyte, the middle is left out."""
    unrestored: tuple[str, ...] = ()
    """A sentence for each change of the job that could not be restored."""


def describe_exception(exception: BaseException, *, outer_frames: int = 0) -> JobError:
    """Return `exception` as a JobError, without the `outer_frames` outermost traceback frames."""
    frames = exception.__traceback__
    for _ in range(outer_frames):
        frames = frames.tb_next if frames is not None else None
    kind = type(exception)
    try:
        message = str(exception)
        lines = traceback.format_exception(kind, exception, frames)
    except Exception as failure:  # the user's __str__ raises
        message, lines = f"(its message raised {type(failure).__name__})", []
    return JobError(
        kind.__qualname__, kind.__module__, message, "".join(lines), _copy_exception(exception)
    )


def _copy_exception(exception: BaseException) -> BaseException | None:
    """Return a copy of `exception` made by pickling; None if that fails or changes its type."""
    try:
        copy: BaseException = pickle.loads(pickle.dumps(exception))
    except Exception:
        return None
    return copy if type(copy) is type(exception) else None


def pickle_plain(value: object, what: str) -> bytes:
    """Return `value` pickled.

    Raises TypeError if that fails. The message begins with `what`: for "the result", it is "the
    result is a Model that cannot be pickled, …".
    """
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"{what} is a {type(value).__qualname__} that cannot be pickled, and only plain data "
            f"leaves an isolated job: {error}"
        ) from error
