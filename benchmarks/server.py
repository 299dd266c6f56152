"""Fork server that is warmed once and forks a fresh process for every question."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks import trial
from benchmarks.zoo_table import Row
from fullgraph.compiler.isolation import begin_isolated, running_fork_server

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


class Server:
    """Runs trials in processes forked from one that has everything imported."""

    def __init__(self, timeout: float, warm: str = "benchmarks.warm") -> None:
        """`warm` is the module that the server imports before it forks."""
        os.environ.update(ENVIRONMENT)
        self.timeout = timeout
        self.closed = False
        self._running = ExitStack()
        self._running.enter_context(running_fork_server(warm, inductor=False))

    def ask(self, side: trial.Side, key: str) -> dict[str, Any]:
        """Return what one side says of one model; a death or a hang is an answer with `crash`."""
        return self.run(functools.partial(trial.run, side, key))

    def run(self, job: Callable[[Callable[[Any], None]], dict[str, Any]]) -> dict[str, Any]:
        """Return what `job` returns in a process of its own, or an answer with `crash`."""
        if self.closed:
            raise InterruptedError("the server is closed")
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

    def ask_all(
        self,
        questions: Mapping[str, Callable[[], Row]],
        known: Mapping[str, Row],
        say: Callable[[Row], str],
        jobs: int,
    ) -> Iterator[Row]:
        """Yield an answer with its key for each question that is not known, as they come.

        `say` gives each its line of progress. The server is closed at the end, or if something is
        raised.
        """
        start, first = monotonic(), len(known.keys() & questions.keys()) + 1
        with ThreadPoolExecutor(jobs) as pool:
            left = {key: one for key, one in questions.items() if key not in known}
            futures = {pool.submit(one): key for key, one in left.items()}
            try:
                for done, future in enumerate(as_completed(futures), first):
                    row = {"key": futures[future], **future.result()}
                    took = monotonic() - start
                    print(f"[{done}/{len(questions)} {took:.0f} s] {say(row)}", flush=True)
                    yield row
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                self.close()

    def answer_all(
        self,
        path: Path,
        questions: Mapping[str, Callable[[], Row]],
        say: Callable[[Row], str],
        jobs: int,
        crashed: Callable[[Row], object] = lambda row: row["crash"],
    ) -> dict[str, Row]:
        """Return the answers by key; those not in the journal `path` are asked and added to it.

        A question whose answer has `crashed` is asked again.
        """
        known = {key: row for key, row in read_rows(path).items() if not crashed(row)}
        rows = {key: known[key] for key in questions if key in known}
        with path.open("a", encoding="utf-8") as file:
            for row in self.ask_all(questions, known, say, jobs):
                rows[row["key"]] = row
                print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
        return rows


def read_rows(path: Path) -> dict[str, Row]:
    """Return the answers of an earlier run by key; a line that an interrupt cut is left out."""
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            row = json.loads(line)
            rows[row["key"]] = row
    return rows
