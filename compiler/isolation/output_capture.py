"""Captures what code prints, from Python and from C."""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import os
import sys
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, TextIO

_LIMIT = 1 << 20
"""Bytes of output to keep: three quarters from its beginning, a quarter from its end."""


class ClippedText:
    """Text of a byte stream of which only the beginning and the end are kept."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._dropped_bytes = self._dropped_lines = 0
        self._head_limit, self._tail_limit = limit - limit // 4, limit // 4

    def feed(self, data: bytes) -> None:
        """Append `data` to the stream."""
        room = max(0, self._head_limit - len(self._head))
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_limit:
            self._drop(len(self._tail) - self._tail_limit)

    def text(self) -> str:
        """Return the text, with one line that says how much is left out of its middle."""
        self._drop(max(0, len(self._tail) - self._tail_limit))
        if not self._dropped_bytes:
            return (self._head + self._tail).decode("utf-8", errors="replace")
        head, tail = self._head, self._tail
        what = f"{self._dropped_bytes} bytes"
        if b"\n" in head and b"\n" in tail:  # without the lines that the cuts go through
            head, tail = head.rpartition(b"\n")[0], tail.partition(b"\n")[2]
            what = f"{self._dropped_lines + 1} lines"
        gap = f"\n… {what} left out …\n".encode()
        return (head + gap + tail).decode("utf-8", errors="replace")

    def _drop(self, size: int) -> None:
        """Drop `size` bytes from the beginning of the tail, and count their lines."""
        self._dropped_bytes += size
        self._dropped_lines += self._tail[:size].count(b"\n")
        del self._tail[:size]


def flush_streams() -> None:
    """Flush the stdout and stderr of Python and of C."""
    streams: list[Any] = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
    for stream in streams:
        with contextlib.suppress(Exception):  # a closed stream, or none at all
            stream.flush()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        for name in ("stdout", "stderr"):  # not fflush(NULL), which waits for a thread in stdin
            libc.fflush(ctypes.c_void_p.in_dll(libc, name))


def redirect_output(descriptor: int) -> list[tuple[logging.StreamHandler[TextIO], TextIO]]:
    """Redirect descriptors 1 and 2, sys.stdout, sys.stderr and all logging to `descriptor`.

    Returns the logging handlers changed, each with its former stream.
    """
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = _writer(1)
    sys.stderr = _writer(2)
    changed = []
    for handler in _stream_handlers():
        changed.append((handler, handler.stream))
        handler.stream = sys.stderr
    return changed


def _writer(descriptor: int) -> TextIO:
    """Return an unbuffered text stream, so that its output keeps its order with C's output."""
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True)


def _stream_handlers() -> list[logging.StreamHandler[TextIO]]:
    """Return the logging handlers that write to a stream."""
    references: list[weakref.ref[logging.Handler]] = vars(logging)["_handlerList"]
    handlers = [reference() for reference in references]
    # a delayed FileHandler has no stream yet, and the handler of last resort owns none
    return [h for h in handlers if isinstance(h, logging.StreamHandler) and vars(h).get("stream")]


class OutputCapture:
    """Captures what this process prints between `start` and `stop`.

    It uses an unnamed file, not a pipe: a process that outlives the capture may write to it
    without blocking.
    """

    def __init__(self) -> None:
        self.text = ""
        """Captured text; "" until `stop`."""
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self._undo = contextlib.ExitStack()

    def start(self) -> None:
        """Redirect the output of this process to the file."""
        flush_streams()
        for number in (1, 2):
            self._undo.callback(_restore_descriptor, number, _duplicate(number))
        for name in ("stdout", "stderr"):
            self._undo.callback(setattr, sys, name, getattr(sys, name))
        for handler, stream in redirect_output(self._file.fileno()):
            self._undo.callback(setattr, handler, "stream", stream)

    def stop(self) -> None:
        """Restore the output, and read the file into `text`."""
        self._release()
        clip = ClippedText()
        self._file.seek(0)
        while data := self._file.read(_LIMIT):
            clip.feed(data)
        self._file.close()
        self.text = clip.text()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Send output to its original destination while the block runs."""
        self._release()
        try:
            yield
        finally:
            self.start()

    def _release(self) -> None:
        """Flush what is buffered, then restore descriptors and streams."""
        flush_streams()
        self._undo.close()


def _restore_descriptor(descriptor: int, copy: int | None) -> None:
    """Make `descriptor` refer to `copy` again, and close `copy`; if `copy` is None, close it."""
    if copy is None:
        os.close(descriptor)
    else:
        os.dup2(copy, descriptor)
        os.close(copy)


def _duplicate(descriptor: int) -> int | None:
    """Return a duplicate of `descriptor`; None if it is closed (`python >&-`, a GUI program)."""
    try:
        return os.dup(descriptor)
    except OSError:
        return None
