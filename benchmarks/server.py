"""Fork server that is warmed once and forks a fresh process for every question."""

from __future__ import annotations

import functools
import os
from contextlib import ExitStack
from typing import Any

from benchmarks import trial
from fullgraph.compiler.isolation import begin_isolated, running_fork_server

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


class Server:
    """Runs trials in processes forked from one that has everything imported."""

    def __init__(self, timeout: float) -> None:
        os.environ.update(ENVIRONMENT)
        self.timeout = timeout
        self.closed = False
        self._running = ExitStack()
        self._running.enter_context(running_fork_server("benchmarks.warm", inductor=False))

    def ask(self, side: trial.Side, key: str) -> dict[str, Any]:
        """Return what one side says of one model; a death or a hang is an answer with `crash`."""
        if self.closed:
            raise InterruptedError("the server is closed")
        job = functools.partial(trial.run, side, key)
        outcome = begin_isolated(job, seconds=self.timeout, stop=lambda: self.closed)()
        if outcome.value is not None:
            return outcome.value
        crash = {
            "timeout": f"no answer in {self.timeout:.0f} s",
            "signal": f"died of {outcome.signal}",
        }.get(outcome.status, outcome.error.message if outcome.error else outcome.status)
        return {"seconds": None, "crash": crash}

    def close(self) -> None:
        """End every trial that still runs, and start no more."""
        self.closed = True
        self._running.close()
