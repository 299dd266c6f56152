"""Runs a callable of the user's and keeps none of its changes.

On CPU it runs in a forked child, which cannot change the user's objects. If a fork is not safe, it
runs in this process, and what it changed is restored.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from fullgraph.compiler.isolation.external_effects import ExternalEffects
from fullgraph.compiler.isolation.fork_safety import choose_process
from fullgraph.compiler.isolation.fork_server import begin_in_fork_server, has_fork_server
from fullgraph.compiler.isolation.forked_child import Emit, Job, begin_forked, run_forked
from fullgraph.compiler.isolation.interrupts import (
    TimeLimitExceeded,
    can_limit_time,
    deferred_interrupts,
    time_limit,
)
from fullgraph.compiler.isolation.job_outcome import (
    JobError,
    JobOutcome,
    JobProcess,
    JobStatus,
    describe_exception,
    pickle_plain,
)
from fullgraph.compiler.isolation.output_capture import OutputCapture
from fullgraph.compiler.isolation.snapshots import snapshot
from fullgraph.compiler.private import DynamoCaches

T = TypeVar("T")


def run_isolated(
    job: Job[T],
    *,
    objects: Sequence[object] = (),
    seconds: float | None = None,
    on_message: Emit | None = None,
    where: JobProcess | None = None,
    cache: str | None = None,
) -> JobOutcome[T]:
    """Run `job(emit)` isolated, and return how it ended.

    `objects` are the objects that the job uses. They are restored after a run in this process, and
    decide where the job runs if `where` is None (`choose_process`). `emit(value)` sends a value to
    `on_message` and to `JobOutcome.messages` at once, so a later crash does not lose it. These
    values and the job's result must be picklable; they arrive as copies.

    The job has `seconds` of wall time. A job in this process can be stopped only while the main
    thread runs Python code, not inside a long call to C. Forked children build Inductor's
    kernels in the folder `cache`; with None, each has its own folder. Raises KeyboardInterrupt and
    the exceptions of `on_message`, after everything is restored.
    """
    if (where or choose_process(objects)[0]) == "process":
        return _run_in_process(job, objects, seconds, on_message)
    if has_fork_server():
        return begin_in_fork_server(job, seconds=seconds, on_message=on_message, cache=cache)()
    return run_forked(job, seconds=seconds, on_message=on_message, cache=cache)


def begin_isolated(
    job: Job[T],
    *,
    seconds: float | None,
    memory: int | None = None,
    cache: str | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Callable[[], JobOutcome[T]]:
    """Begin `job` in a forked child of this process, or in a child of its fork server.

    Returns a function that waits for the outcome. The child is killed after `seconds`, if it
    allocates more than `memory` bytes (None: no limit), or if `stop()` returns True. Inductor
    builds in the folder `cache`; None means a temporary one.
    """
    begin = begin_in_fork_server if has_fork_server() else begin_forked
    return begin(job, seconds=seconds, memory=memory, cache=cache, stop=stop)


def run_isolated_together(
    jobs: Sequence[Job[T]],
    *,
    objects: Sequence[object],
    where: JobProcess,
    seconds: float | None = None,
) -> list[JobOutcome[T]]:
    """Run the jobs isolated; return how each one ended, in the order of `jobs`.

    With `where="fork"`, all run at the same time, each in a forked child. With "process", they run
    one after the other in this process, and `objects` are restored after each. `seconds` is the
    wall time of each job; None means no limit.
    """
    if where == "process":
        return [run_isolated(job, objects=objects, seconds=seconds, where=where) for job in jobs]
    cancelled = threading.Event()
    waiting = [begin_isolated(job, seconds=seconds, stop=cancelled.is_set) for job in jobs]
    outcomes: list[JobOutcome[T]] = []
    try:
        outcomes += (wait() for wait in waiting)
    finally:
        cancelled.set()  # after an interrupt, the others end at once
        for wait in waiting[len(outcomes) + 1 :]:
            wait()
    return outcomes


def process_with_own_memory() -> JobProcess:
    """Return where to run a job that must leave the memory of the user's process unchanged.

    That is "fork", a forked child. It is "process", this very process, if there is a fork server,
    because only a child of the user's process has one.
    """
    return "process" if has_fork_server() else "fork"


def _run_in_process(
    job: Job[T], objects: Sequence[object], seconds: float | None, on_message: Emit | None
) -> JobOutcome[T]:
    """Run a job in this process, then restore the state of `objects` and of the process."""
    start = time.monotonic()
    messages: list[object] = []
    listener_errors: list[Exception] = []
    capture = OutputCapture()

    def emit(message: object) -> None:
        messages.append(pickle.loads(pickle_plain(message, "the message")))
        if on_message is None:
            return
        with capture.paused():
            try:
                on_message(messages[-1])
            except Exception as failure:
                listener_errors.append(failure)
                raise

    status: JobStatus = "ok"
    value: T | None = None
    error: JobError | None = None
    before = snapshot(objects)
    caches = DynamoCaches(before.codes)
    effects = ExternalEffects()
    try:
        caches.hide()
        capture.start()
        with time_limit(seconds):
            value = pickle.loads(pickle_plain(job(emit), "the result"))
    except TimeLimitExceeded:
        status = "timeout"
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        status, error = "raised", describe_exception(raised, outer_frames=1)
    finally:
        with deferred_interrupts():
            capture.stop()
            unrestored = [*caches.restore(), *before.restore(), *effects.changes()]
    if listener_errors:
        raise listener_errors[0]
    if seconds is not None and not can_limit_time():
        unrestored.append("The time limit was not kept: that takes Unix and the main thread.")
    return JobOutcome(
        status,
        "process",
        time.monotonic() - start,
        value=value,
        messages=tuple(messages),
        error=error,
        output=capture.text,
        unrestored=tuple(unrestored),
    )
