"""Running a job in a forked child, which may crash, hang or change what it likes. Linux only.

The child has the parent's objects as they are, caches included, but a memory, standard streams,
signal handlers and a process group of its own. What it did to a file, a socket or a server stays
done, and an open file's position is shared with the parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import pickle
import resource
import selectors
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import torch

from fullgraph.compiler.isolation import interrupts, processes, shared_memory
from fullgraph.compiler.isolation import output_capture as output
from fullgraph.compiler.isolation import process_groups as groups
from fullgraph.compiler.isolation.outcome import Error, Outcome, Status, describe, plain
from fullgraph.compiler.private import torch_state as settings
from fullgraph.compiler.sources import live_functions as functions

T = TypeVar("T")

_HEADER = struct.Struct("!cQ")
"""Kind and length of the pickled bytes that follow."""
_MESSAGE, _VALUE, _ERROR = b"m", b"v", b"e"
_CHUNK = 1 << 20
_POLL = 0.05
"""Seconds between looks at whether the child is still there, when it says nothing, and at its
memory."""


def run_forked(
    job: Callable[[Callable[[object], None]], T],
    *,
    seconds: float | None,
    on_message: Callable[[object], None] | None,
    cache: str | None = None,
) -> Outcome[T]:
    """`job` run in a forked child that has `seconds` of wall time.

    Inductor keeps what it builds in the folder `cache`, else in one that is gone afterwards.
    Whatever ends this call (KeyboardInterrupt and an exception of `on_message` too), the child
    and the processes it started are killed when it returns.
    """
    start = time.monotonic()
    folder = tempfile.mkdtemp(prefix="fullgraph-")
    child = _Child()
    try:
        child.start(job, cache or folder)
        ended = child.listen(_deadline(start, seconds), on_message)
    finally:
        _end(child, folder)
    return child.outcome(ended, time.monotonic() - start)


def begin_forked(
    job: Callable[[Callable[[object], None]], T],
    *,
    seconds: float | None,
    memory: int | None = None,
    cache: str | None = None,
    stop: Callable[[], bool] = lambda: False,
    on_message: Callable[[object], None] | None = None,
    opened: Callable[[bytearray], Any] = pickle.loads,
) -> Callable[[], Outcome[T]]:
    """The same, but only the fork is done now, and the function that is returned does the rest.

    `memory` bytes are given to the child and what it starts, above what it has from its parent;
    `stop` says when to end it, as if its time were over. `opened` makes of its pickled words what
    messages, value and error hold.
    The function must be called, in any thread. To fork in another thread than the one that works
    with torch could copy a lock that is held.
    """
    start = time.monotonic()
    folder = tempfile.mkdtemp(prefix="fullgraph-")
    child = _Child(opened)
    try:
        child.start(job, cache or folder)
    except BaseException:
        _end(child, folder)
        raise

    def wait() -> Outcome[T]:
        try:
            ended = child.listen(_deadline(start, seconds), on_message, memory, stop)
        finally:
            _end(child, folder)
        return child.outcome(ended, time.monotonic() - start)

    return wait


def _deadline(start: float, seconds: float | None) -> float | None:
    return None if seconds is None else start + seconds


def _end(child: _Child, folder: str) -> None:
    child.end()
    shutil.rmtree(folder, ignore_errors=True)


class _Child:
    """The parent's end of a forked child."""

    def __init__(self, opened: Callable[[bytearray], Any] = pickle.loads) -> None:
        self._opened = opened
        self._messages: list[object] = []
        self._clip = output.Clip()
        self._unread = bytearray()
        self._result: tuple[bytes, Any] | None = None
        self._pid: int | None = None
        self._status: int | None = None
        self._words = self._prints = -1

    def start(self, job: Callable[[Callable[[object], None]], T], folder: str) -> None:
        output.flush()  # else the child would write the same again
        parent = os.getpid()
        with interrupts.held():  # until the child has a handler of its own
            self._words, words = os.pipe()
            self._prints, prints = os.pipe()
            for descriptor in (self._words, self._prints):
                os.set_blocking(descriptor, False)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # threads, Python 3.12+
                    pid = os.fork()
                if pid == 0:
                    _child_main(job, words, prints, parent, folder)
                self._pid = pid
            finally:
                os.close(words)
                os.close(prints)

    def listen(
        self,
        deadline: float | None,
        on_message: Callable[[object], None] | None,
        memory: int | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Status:
        """Take in what the child says until its result is there or it is gone.

        Returns "ok", or which limit it met first: "timeout" or "memory".
        """
        assert self._pid is not None
        more = memory and memory + processes.memory(self._pid)
        looked = time.monotonic()
        with selectors.DefaultSelector() as selector, self._watch(selector):
            for descriptor in (self._words, self._prints):
                selector.register(descriptor, selectors.EVENT_READ, self._read)
            while self._result is None and not self._gone():
                left = _POLL if deadline is None else min(_POLL, deadline - time.monotonic())
                if left <= 0 or stop():
                    return "timeout"
                if more and time.monotonic() - looked > _POLL:
                    if processes.memory(self._pid) > more:
                        return "memory"
                    looked = time.monotonic()
                for key, _ in selector.select(left):
                    if key.data is not None and not key.data(key.fd, on_message):
                        selector.unregister(key.fd)
            for key in list(selector.get_map().values()):  # what it said last
                while key.data is not None and key.data(key.fd, on_message, wait=False):
                    pass
        return "ok"

    @contextlib.contextmanager
    def _watch(self, selector: selectors.BaseSelector) -> Iterator[None]:
        """Wake `selector` as soon as the child ends, where the kernel can; else it is polled."""
        assert self._pid is not None
        try:
            descriptor = os.pidfd_open(self._pid)
        except OSError:
            yield
            return
        try:
            selector.register(descriptor, selectors.EVENT_READ)
            yield
        finally:
            os.close(descriptor)

    def end(self) -> None:
        """Kill the child with all it started."""
        with interrupts.held():
            if self._pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(self._pid, signal.SIGKILL)
                    os.killpg(self._pid, signal.SIGKILL)  # last: the group may not exist yet
                if self._result is None:
                    self._bury()
                else:  # giving a big process's memory back takes longer than a small trace
                    threading.Thread(target=self._bury, daemon=True).start()
            for descriptor in (self._words, self._prints):
                if descriptor >= 0:
                    os.close(descriptor)

    def _bury(self) -> None:
        """Wait until the child is gone, and leave no zombie."""
        assert self._pid is not None
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(self._pid, 0)
            self._status = os.waitstatus_to_exitcode(status)

    def outcome(self, ended: Status, seconds: float) -> Outcome[Any]:
        shared: dict[str, Any] = {
            "where": "fork",
            "seconds": seconds,
            "messages": tuple(self._messages),
            "output": self._clip.text(),
        }
        if self._result is not None:
            kind, content = self._result
            if kind == _VALUE:
                return Outcome("ok", value=content, **shared)
            return Outcome("raised", error=content, **shared)
        if ended != "ok":
            return Outcome(ended, **shared)
        if self._status is not None and self._status < 0:
            return Outcome("signal", signal=signal.Signals(-self._status).name, **shared)
        code = "unknown" if self._status is None else self._status
        message = f"the process ended itself with exit code {code} before the job was done"
        return Outcome("raised", error=Error("SystemExit", "builtins", message, ""), **shared)

    def _gone(self) -> bool:
        """Whether the child has ended. Its pid stays taken until `end`."""
        assert self._pid is not None
        try:
            look = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._pid, look) is not None
        except ChildProcessError:  # SIGCHLD is ignored, or another thread waits for all children
            self._pid = None
            return True

    def _read(
        self, descriptor: int, on_message: Callable[[object], None] | None, wait: bool = True
    ) -> bool:
        """Take in what there is. Returns whether there may be more."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return wait
        if descriptor == self._prints:
            self._clip.feed(data)
            return bool(data)
        self._unread += data
        self._understand(on_message)
        return bool(data)

    def _understand(self, on_message: Callable[[object], None] | None) -> None:
        while len(self._unread) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._unread)
            if len(self._unread) < _HEADER.size + length:
                return
            try:
                content = self._opened(self._unread[_HEADER.size : _HEADER.size + length])
            except Exception as error:  # of a class that only the child could import
                kind, content = _ERROR, describe(error)
            del self._unread[: _HEADER.size + length]
            if kind != _MESSAGE:
                self._result = kind, content
                continue
            self._messages.append(content)
            if on_message is not None:
                on_message(content)


def _child_main(
    job: Callable[[Callable[[object], None]], T], words: int, prints: int, parent: int, folder: str
) -> NoReturn:
    """The child's whole life. It never returns into the parent's code."""
    try:
        with os.fdopen(words, "wb") as pipe:
            lock = threading.Lock()

            def say(kind: bytes, content: bytes) -> None:
                with lock:
                    pipe.write(_HEADER.pack(kind, len(content)))
                    pipe.write(content)
                    pipe.flush()

            try:
                _leave(parent)
                _own_streams(prints)
                shared_memory.make_private()
                _own_compiler(folder)
                groups.alone()  # the threads that talk to the other ranks are not here
                result = job(lambda message: say(_MESSAGE, plain(message, "the message")))
                output.flush()  # the parent listens no longer than to the result
                say(_VALUE, plain(result, "the result"))
            except BaseException as error:
                output.flush()
                say(_ERROR, plain(describe(error, outer_frames=1), "the error"))
    finally:
        os._exit(0)  # no atexit handler, no finalizer of the parent's runs twice


def _leave(parent: int) -> None:
    """Away from the parent's terminal, signal handlers, debugger and garbage."""
    os.setsid()
    end_with_parent(parent)
    signal.set_wakeup_fd(-1)  # an event loop's
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    functions.set_aside()


def end_with_parent(parent: int) -> None:
    """From now on the kernel kills this process when its parent ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _own_streams(prints: int) -> None:
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    sys.stdin = os.fdopen(0, closefd=False)
    output.to_descriptor(prints)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    os.close(empty)
    os.close(prints)
    faulthandler.enable(2)  # a crash says in which Python line; and not on the parent's stderr


def _own_compiler(folder: str) -> None:
    """One thread, no compile cache of the parent's, and files only in `folder`."""
    # libgomp's threads are not in the child: a parallel op would wait for them for ever
    torch.set_num_threads(1)
    settings.compile_in_one_thread()  # nor is Inductor's pool of processes
    settings.time_no_guards()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    if "torch._dynamo" in sys.modules:  # else nothing was compiled yet
        torch.compiler.reset()
