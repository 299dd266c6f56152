"""Running a user's callable without leaving a trace of it.

On CPU it runs in a forked child, and nothing of the user's can change. Where a forked child would
not work it runs in this process, and what it changed is put back.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from fullgraph.compiler.isolation import interrupts
from fullgraph.compiler.isolation import output_capture as output
from fullgraph.compiler.isolation import process_groups as groups
from fullgraph.compiler.isolation.external_effects import Outside
from fullgraph.compiler.isolation.outcome import (
    Error,
    Outcome,
    Status,
    Where,
    describe,
    plain,
    unpickled,
)
from fullgraph.compiler.isolation.snapshot import devices, snapshot
from fullgraph.compiler.private.dynamo_caches import Caches

__all__ = ["Error", "Outcome", "Status", "Where", "choose", "run"]

T = TypeVar("T")


def run(
    job: Callable[[Callable[[object], None]], T],
    *,
    objects: Sequence[object] = (),
    seconds: float | None = None,
    on_message: Callable[[object], None] | None = None,
    where: Where | None = None,
    cache: str | None = None,
) -> Outcome[T]:
    """Run `job(emit)` isolated, and tell how it ended.

    `objects` is what the job uses: what is put back when it runs in this process, and what
    `choose` looks at when `where` is None. `emit(value)` hands plain data out at once, to
    `on_message` and to `Outcome.messages`; a crash later loses nothing of it. The job's result
    must be plain data too: both arrive as copies.

    `seconds` of wall time are given; in this process only code that comes back to Python's main
    thread can be stopped. `cache` is a folder in which forked children share what Inductor built,
    else each has its own. KeyboardInterrupt, and an exception of `on_message`, come out of this
    call after everything is put back.
    """
    if (where or choose(objects)[0]) == "fork":
        from fullgraph.compiler.isolation import fork_server as standby
        from fullgraph.compiler.isolation import forked_child as forked

        if standby.asked():
            return standby.begin(job, seconds=seconds, on_message=on_message, cache=cache)()
        return forked.run_forked(job, seconds=seconds, on_message=on_message, cache=cache)
    return _run_here(job, objects, seconds, on_message)


def begin(
    job: Callable[[Callable[[object], None]], T],
    *,
    seconds: float | None,
    memory: int | None = None,
    cache: str | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Callable[[], Outcome[T]]:
    """Begin to run `job` in a forked child, see `forked.begin_forked`; in one of another process
    where that forks for this one, see `standby`."""
    from fullgraph.compiler.isolation import fork_server as standby
    from fullgraph.compiler.isolation import forked_child as forked

    begin_forked = standby.begin if standby.asked() else forked.begin_forked
    return begin_forked(job, seconds=seconds, memory=memory, cache=cache, stop=stop)


def aside() -> Where:
    """Where a job runs that is to have the memory of this process: a forked child, or this process
    itself where another forks for it, since it is a child then."""
    from fullgraph.compiler.isolation import fork_server as standby

    return "process" if standby.asked() else "fork"


def choose(objects: Sequence[object], *, alone: bool = False) -> tuple[Where, str]:
    """Where a job on `objects` is to run, and why, as half a sentence.

    `alone` says that its collectives may be computed without the other ranks, as `groups` does in
    a forked child; else a live process group keeps it in this process.
    """
    if sys.platform != "linux":
        return "process", f"a fork is not safe on {sys.platform}"
    if groups.live() and not alone:
        return "process", "a process group is live, and its threads do not survive a fork"
    for accelerator in (torch.cuda, torch.xpu):
        if accelerator.is_initialized():
            return "process", f"{accelerator.__name__} is initialised and does not survive a fork"
    if _driver_open():
        return "process", "a GPU driver is open in this process and does not survive a fork"
    if _autograd_threads():
        return "process", "autograd's device threads run here, and a fork has no backward then"
    if _other_accelerator():
        elsewhere = sorted(devices(objects) - {"cpu", "meta"})
        if elsewhere:
            return "process", f"there are tensors on {', '.join(elsewhere)}"
    return "fork", "everything is on CPU"


def _other_accelerator() -> bool:
    """Whether a tensor may be on a device that neither CPU nor CUDA nor XPU tells about."""
    known = torch.accelerator.current_accelerator()
    return "torch_xla" in sys.modules or not (known is None or known.type in ("cuda", "xpu"))


def _driver_open() -> bool:
    """Whether a GPU driver is in use, though torch itself may not have initialised it:
    `torch.cuda.is_available()` is enough."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(f"/proc/self/fd/{name}").startswith(("/dev/nvidia", "/dev/kfd")):
                    return True
    return False


def _autograd_threads() -> bool:
    """Whether autograd has started a thread for each device. It does so at the first backward if
    there are devices, and on a CUDA build without a GPU if that backward ran in AOTAutograd."""
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):  # ended meanwhile
                if Path(f"/proc/self/task/{thread}/comm").read_text().startswith("pt_autograd_"):
                    return True
    return False


def _run_here(
    job: Callable[[Callable[[object], None]], T],
    objects: Sequence[object],
    seconds: float | None,
    on_message: Callable[[object], None] | None,
) -> Outcome[T]:
    start = time.monotonic()
    messages: list[object] = []
    listener_failed: list[BaseException] = []
    capture = output.Capture()

    def emit(message: object) -> None:
        messages.append(unpickled(plain(message, "the message")))
        if on_message is None:
            return
        with capture.paused():
            try:
                on_message(messages[-1])
            except Exception as failure:
                listener_failed.append(failure)
                raise

    status: Status = "ok"
    value: T | None = None
    error: Error | None = None
    before = snapshot(objects)
    caches = Caches(before.codes)
    outside = Outside()
    try:
        caches.hide()
        capture.start()
        with interrupts.time_limit(seconds):
            value = unpickled(plain(job(emit), "the result"))
    except interrupts.OutOfTime:
        status = "timeout"
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        status, error = "raised", describe(raised, outer_frames=1)
    finally:
        with interrupts.held():
            capture.stop()
            unrestored = [*caches.restore(), *before.restore(), *outside.changes()]
    if listener_failed:
        raise listener_failed[0]
    if seconds is not None and not interrupts.can_limit():
        unrestored.append("The time limit was not kept: that takes Unix and the main thread.")
    return Outcome(
        status,
        "process",
        time.monotonic() - start,
        value=value,
        messages=tuple(messages),
        error=error,
        output=capture.text,
        unrestored=tuple(unrestored),
    )
