"""Worker processes that each examine a part of the files."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from fullgraph.compiler.errors import FullgraphError
from fullgraph.rewrites.check.examine import Examiner

FILES_PER_WORKER = 8
"""Least number of files for each worker; with fewer, a process costs more than it saves."""


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Context manager that runs the check in `count` processes.

    Each process has an examiner, which `make` returns. If `count` is 1, the examiner runs in this
    process.
    """

    def __init__(self, make: Callable[[], Examiner], count: int) -> None:
        self._make = make
        self.count = max(1, count)
        self._own: Examiner | None = None
        self._processes: list[tuple[multiprocessing.process.BaseProcess, Connection]] = []

    def __enter__(self) -> Workers:
        if self.count > 1:
            forks = sys.platform == "linux" and "torch" not in sys.modules
            context: Any = multiprocessing.get_context("fork" if forks else "spawn")
            for _ in range(self.count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, self._make), daemon=True)
                process.start()
                theirs.close()
                self._processes.append((process, ours))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process, connection in self._processes:
            if error is not None:
                process.terminate()
            else:
                connection.send(None)
            process.join()
            connection.close()

    def call(self, method: str, arguments: Sequence[Sequence[tuple[Any, ...]]]) -> list[list[Any]]:
        """Call a method of each worker's examiner, once for each of the worker's argument tuples.

        `arguments` holds a list of argument tuples for each worker; the results have the same
        form. Re-raises a worker's FullgraphError; another error raises RuntimeError with its
        traceback.
        """
        if self.count == 1:
            self._own = self._own or self._make()
            return [[getattr(self._own, method)(*one) for one in part] for part in arguments]
        for (_, connection), part in zip(self._processes, arguments, strict=True):
            connection.send((method, part))
        results = []
        for _, connection in self._processes:
            try:
                done, result = connection.recv()
            except EOFError:
                raise RuntimeError("A worker process of `check` ended early.") from None
            if isinstance(result, FullgraphError):
                raise result
            if not done:
                raise RuntimeError(f"A worker process of `check` failed.\n{result}")
            results.append(result)
        return results


def _serve(connection: Connection, make: Callable[[], Examiner]) -> None:
    """Answer the requests that arrive at `connection`, in a worker process, until None arrives.

    A request names a method of the examiner that `make` returns, and the arguments of its calls.
    """
    examiner = make()
    while True:
        request = connection.recv()
        if request is None:
            return
        method, arguments = request
        try:
            answer: tuple[bool, Any] = True, [getattr(examiner, method)(*one) for one in arguments]
        except FullgraphError as error:
            answer = False, error
        except Exception:
            answer = False, traceback.format_exc()
        connection.send(answer)


def split_by_size(files: Sequence[Path], count: int) -> list[list[Path]]:
    """Return `files` split, in order, into `count` lists with about the same number of bytes."""
    sizes = [one.stat().st_size if one.exists() else 0 for one in files]
    total, before = sum(sizes) or 1, 0
    parts: list[list[Path]] = [[] for _ in range(count)]
    for file, size in zip(files, sizes, strict=True):
        parts[min(count - 1, before * count // total)].append(file)
        before += size
    return parts
