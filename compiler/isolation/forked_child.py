"""Jobs in a forked child, which may crash, hang or change anything. Linux only.

The child starts with the parent's objects and caches, but has its own memory, standard streams,
signal handlers and process group. Its effects on files, sockets and servers are real, and it
shares the position of open files with the parent.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import shutil
import signal
import struct
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Generic, NoReturn, TypeVar

from fullgraph.compiler.isolation.child_process import enter_child
from fullgraph.compiler.isolation.interrupts import deferred_interrupts
from fullgraph.compiler.isolation.job_outcome import (
    JobError,
    JobOutcome,
    JobStatus,
    describe_exception,
    pickle_plain,
)
from fullgraph.compiler.isolation.output_capture import ClippedText, flush_streams
from fullgraph.compiler.isolation.process_memory import process_memory, scheduled_seconds

T = TypeVar("T")

Emit = Callable[[object], None]
"""Function by which a running job sends a value that can be pickled to the parent."""
Job = Callable[[Emit], T]


_HEADER = struct.Struct("!cQ")
"""Header in the pipe: kind of the pickled bytes that follow, and their number."""
_MESSAGE, _VALUE, _ERROR = b"m", b"v", b"e"
_CHUNK = 1 << 20
_POLL = 0.05
"""Seconds between checks of the child's state and memory while it sends nothing."""


def _share_of_waiting(before: tuple[float, float, float], pid: int) -> float:
    """Return the share of the time since `before` in which a process waited for a processor.

    `before` is a time, and the seconds that the process had run and waited then. Of several threads
    it is the share of the time in which they could run.
    """
    ran, waited = (new - old for new, old in zip(scheduled_seconds(pid), before[1:], strict=True))
    return waited / max(time.monotonic() - before[0], ran + waited)


def _never() -> bool:
    return False


def run_forked(
    job: Job[T],
    *,
    seconds: float | None,
    cache: str | None = None,
    on_message: Emit | None = None,
) -> JobOutcome[T]:
    """Run `job` in a forked child for at most `seconds` of wall time.

    Inductor builds in the folder `cache`; None means a temporary one. `on_message` receives what
    the job emits. When this call returns or raises, for example KeyboardInterrupt, the child and
    the processes that it started are killed.
    """
    child: ForkedChild[T] = ForkedChild()
    try:
        child.start(job, cache)
        return child.wait(seconds=seconds, on_message=on_message)
    finally:
        child.end()


def begin_forked(
    job: Job[T],
    *,
    seconds: float | None,
    memory: int | None = None,
    cache: str | None = None,
    stop: Callable[[], bool] = _never,
    on_message: Emit | None = None,
    load: Callable[[bytearray], object] = pickle.loads,
) -> Callable[[], JobOutcome[T]]:
    """Fork a child that runs `job`; return a function that waits for its outcome.

    The child has `seconds` of wall time. Together with the processes that it starts, it may
    allocate `memory` bytes more than it has at its start. None means no limit. If `stop()` returns
    True, the child is killed as if its time were over. Inductor builds in the folder `cache`; None
    means a temporary one. `load` unpickles what the child sends. Call the returned function once,
    in any thread. Call `begin_forked` in the thread that uses torch: a fork in another thread could
    copy a lock that is held.
    """
    child: ForkedChild[T] = ForkedChild(load)
    try:
        child.start(job, cache)
    except BaseException:
        child.end()
        raise
    return lambda: child.wait(seconds=seconds, memory=memory, stop=stop, on_message=on_message)


class ForkedChild(Generic[T]):
    """A forked child, as its parent sees it."""

    def __init__(self, load: Callable[[bytearray], object] = pickle.loads) -> None:
        self._load = load
        self._start = time.monotonic()
        self._folder: str | None = None
        self._messages: list[object] = []
        self._output = ClippedText()
        self._unread = bytearray()
        self._result: tuple[bytes, Any] | None = None
        self._pid: int | None = None
        self._exit_code: int | None = None
        self._waiting = 0.0
        self._pipes: list[int] = []
        """Descriptors to read from: of what the job emits, then of what it prints."""

    def start(self, job: Job[T], cache: str | None) -> None:
        """Fork the child, which runs `job`; Inductor builds in `cache` or a temporary folder."""
        self._start = time.monotonic()
        self._folder = tempfile.mkdtemp(prefix="fullgraph-")
        flush_streams()  # else the child would write the same again
        parent = os.getpid()
        with deferred_interrupts():  # until the child has a handler of its own
            emitted, emit_to = os.pipe()
            printed, print_to = os.pipe()
            self._pipes = [emitted, printed]
            for descriptor in self._pipes:
                os.set_blocking(descriptor, False)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # threads, Python 3.12+
                    pid = os.fork()
                if pid == 0:
                    _run_child(job, emit_to, print_to, parent, cache or self._folder)
                self._pid = pid
            finally:
                os.close(emit_to)
                os.close(print_to)

    def wait(
        self,
        *,
        seconds: float | None,
        memory: int | None = None,
        stop: Callable[[], bool] = _never,
        on_message: Emit | None = None,
    ) -> JobOutcome[T]:
        """Wait until the child sends its result, exits or exceeds a limit; return the outcome."""
        deadline = None if seconds is None else self._start + seconds
        try:
            status = self._listen(deadline, on_message, memory, stop)
        finally:
            self.end()
        return self._make_outcome(status, time.monotonic() - self._start)

    def end(self) -> None:
        """Kill the child and every process it started; a second call does nothing."""
        with deferred_interrupts():
            pid, self._pid = self._pid, None
            if pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                    os.killpg(pid, signal.SIGKILL)  # last: the group may not exist yet
                if self._result is None:
                    self._reap(pid)
                else:  # releasing the memory of a big process takes longer than a small trace
                    threading.Thread(target=self._reap, args=(pid,), daemon=True).start()
            while self._pipes:
                os.close(self._pipes.pop())
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _listen(
        self,
        deadline: float | None,
        on_message: Emit | None,
        memory: int | None,
        stop: Callable[[], bool],
    ) -> JobStatus:
        """Read what the child sends until it ends; return "ok", or the limit that it exceeds.

        A limit is "timeout", also if `stop()` returns True, or "memory".
        """
        assert self._pid is not None
        limit = memory and memory + process_memory(self._pid)
        measured, halfway = time.monotonic(), None
        with selectors.DefaultSelector() as selector, self._wake_at_exit(selector, self._pid):
            for descriptor in self._pipes:
                selector.register(descriptor, selectors.EVENT_READ, self._read)
            while self._result is None and not self._has_exited():
                left = _POLL if deadline is None else min(_POLL, deadline - time.monotonic())
                if left <= 0 or stop():
                    if halfway is not None:
                        self._waiting = _share_of_waiting(halfway, self._pid)
                    return "timeout"
                is_late = deadline is not None and time.monotonic() > (self._start + deadline) / 2
                if is_late and halfway is None:
                    halfway = time.monotonic(), *scheduled_seconds(self._pid)
                if limit and time.monotonic() - measured > _POLL:
                    if process_memory(self._pid) > limit:
                        return "memory"
                    measured = time.monotonic()
                for key, _ in selector.select(left):
                    if key.data is not None and not key.data(key.fd, on_message):
                        selector.unregister(key.fd)
            for key in list(selector.get_map().values()):  # what it sent last
                while key.data is not None and key.data(key.fd, on_message, wait=False):
                    pass
        return "ok"

    @staticmethod
    @contextlib.contextmanager
    def _wake_at_exit(selector: selectors.BaseSelector, pid: int) -> Iterator[None]:
        """Wake `selector` as soon as the child exits, if the kernel has pidfd_open."""
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            yield
            return
        try:
            selector.register(descriptor, selectors.EVENT_READ)
            yield
        finally:
            os.close(descriptor)

    def _reap(self, pid: int) -> None:
        """Wait until the child has exited, so that no zombie remains."""
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(pid, 0)
            self._exit_code = os.waitstatus_to_exitcode(status)

    def _make_outcome(self, status: JobStatus, seconds: float) -> JobOutcome[T]:
        """Return the outcome of a child that ended with `status` after `seconds`."""
        shared: dict[str, Any] = {
            "where": "fork",
            "seconds": seconds,
            "waiting": self._waiting,
            "messages": tuple(self._messages),
            "output": self._output.text(),
        }
        if self._result is not None:
            kind, content = self._result
            if kind == _VALUE:
                return JobOutcome("ok", value=content, **shared)
            return JobOutcome("raised", error=content, **shared)
        if status != "ok":
            return JobOutcome(status, **shared)
        if self._exit_code is not None and self._exit_code < 0:
            name = signal.Signals(-self._exit_code).name
            return JobOutcome("signal", signal=name, **shared)
        code = "unknown" if self._exit_code is None else self._exit_code
        message = f"the process ended itself with exit code {code} before the job was done"
        error = JobError("SystemExit", "builtins", message, "")
        return JobOutcome("raised", error=error, **shared)

    def _has_exited(self) -> bool:
        """Return whether the child has exited. Its pid stays reserved until `end`."""
        if self._pid is None:
            return True
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._pid, options) is not None
        except ChildProcessError:  # SIGCHLD is ignored, or another thread waits for all children
            self._pid = None
            return True

    def _read(self, descriptor: int, on_message: Emit | None, wait: bool = True) -> bool:
        """Read once from a pipe; return False if it is closed, or empty and not `wait`."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return wait
        if descriptor == self._pipes[1]:
            self._output.feed(data)
            return bool(data)
        self._unread += data
        self._parse(on_message)
        return bool(data)

    def _parse(self, on_message: Emit | None) -> None:
        """Parse complete messages and the result from the bytes read so far."""
        while len(self._unread) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._unread)
            if len(self._unread) < _HEADER.size + length:
                return
            try:
                content = self._load(self._unread[_HEADER.size : _HEADER.size + length])
            except Exception as error:  # of a class that only the child could import
                kind, content = _ERROR, describe_exception(error)
            del self._unread[: _HEADER.size + length]
            if kind != _MESSAGE:
                self._result = kind, content
                continue
            self._messages.append(content)
            if on_message is not None:
                on_message(content)


def _run_child(job: Job[object], emit_to: int, print_to: int, parent: int, cache: str) -> NoReturn:
    """Run `job` in the child and exit, so that the child never runs the parent's code.

    The job emits to the descriptor `emit_to`, and prints to `print_to`.
    """
    try:
        with os.fdopen(emit_to, "wb") as pipe:
            lock = threading.Lock()

            def send(kind: bytes, content: bytes) -> None:
                """Send one framed message to the parent."""
                with lock:
                    pipe.write(_HEADER.pack(kind, len(content)))
                    pipe.write(content)
                    pipe.flush()

            try:
                enter_child(parent, print_to, cache)
                result = job(lambda message: send(_MESSAGE, pickle_plain(message, "the message")))
                flush_streams()  # the parent stops reading once it has the result
                send(_VALUE, pickle_plain(result, "the result"))
            except BaseException as error:
                flush_streams()
                send(_ERROR, pickle_plain(describe_exception(error, outer_frames=1), "the error"))
    finally:
        os._exit(0)  # the parent's atexit handlers and finalizers must not run twice
