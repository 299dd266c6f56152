"""A server that is warmed once and forks a fresh process for every question."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from typing import Any

from benchmarks import trial

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
GRACE = 2.0
"""Seconds that a process has to end by itself after its answer."""


class Server:
    """Runs trials in processes forked from one that has everything imported."""

    def __init__(self, timeout: float) -> None:
        os.environ.update(ENVIRONMENT)
        self.timeout = timeout
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["benchmarks.warm"])
        self.running: set[int] = set()
        self.closed = False

    def ask(self, side: trial.Side, key: str) -> dict[str, Any]:
        """What one side says of one model; a death or a hang is an answer with `crash`."""
        if self.closed:
            raise InterruptedError("the server is closed")
        mine, theirs = self.context.Pipe(duplex=False)
        process = self.context.Process(target=trial.run, args=(side, key, theirs))
        process.start()
        theirs.close()
        assert process.pid is not None
        self.running.add(process.pid)
        try:
            if not mine.poll(self.timeout):
                return {"seconds": None, "crash": f"no answer in {self.timeout:.0f} s"}
            answer: dict[str, Any] = mine.recv()
            process.join(GRACE)
            return answer
        except EOFError:
            process.join()
            return {"seconds": None, "crash": f"died with exit code {process.exitcode}"}
        finally:
            self._end(process.pid)
            process.join()
            self.running.discard(process.pid)

    def close(self) -> None:
        """End every trial that still runs, and start no more."""
        self.closed = True
        for pid in tuple(self.running):
            self._end(pid)

    @staticmethod
    def _end(group: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
