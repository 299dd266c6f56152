"""A server that is warmed once and forks a process for each case of the golden data.

It uses nothing of fullgraph, so that a change under comparison cannot change how cases are run.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from typing import Any

from benchmarks import golden_cases

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
GRACE = 2.0
"""Seconds that a process has to exit after its answer."""


class Server:
    """Runs cases in processes forked from one that has everything imported."""

    def __init__(self, bugs: str, timeout: float) -> None:
        os.environ.update(ENVIRONMENT)
        self.bugs, self.timeout = bugs, timeout
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["benchmarks.golden_warm"])
        self.running: set[int] = set()
        self.closed = False

    def ask(self, key: str) -> dict[str, Any]:
        """The answer of the case "PART/NAME"; `{"crash": …}` if it dies or takes too long."""
        if self.closed:
            raise InterruptedError("the server is closed")
        mine, theirs = self.context.Pipe(duplex=False)
        process = self.context.Process(target=golden_cases.run, args=(self.bugs, key, theirs))
        process.start()
        theirs.close()
        assert process.pid is not None
        self.running.add(process.pid)
        try:
            if not mine.poll(self.timeout):
                return {"crash": f"no answer in {self.timeout:.0f} s"}
            answer: dict[str, Any] = mine.recv()
            process.join(GRACE)
            return answer
        except EOFError:
            process.join()
            return {"crash": f"died with exit code {process.exitcode}"}
        finally:
            self._kill(process.pid)
            process.join()
            self.running.discard(process.pid)

    def close(self) -> None:
        """Kill every case that still runs, and start no more."""
        self.closed = True
        for pid in tuple(self.running):
            self._kill(pid)

    @staticmethod
    def _kill(group: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
