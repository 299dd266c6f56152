"""A failing program under reduction."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fullgraph.compiler.ladder import RUNGS, Rung
from fullgraph.compiler.private import GraphLevel
from fullgraph.minifier.oracle.candidate import Candidate
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Kind
from fullgraph.minifier.oracle.oracle import Oracle
from fullgraph.minifier.oracle.sandbox import SECONDS

_TOLD = 120
"""Characters of an error in a note."""


class OnProgress(Protocol):
    """Callback with the phase, the size at its start and now, and a writer of the current
    script."""

    def __call__(
        self, phase: str, before: int, now: int, write: Callable[[], str] | None = None
    ) -> None: ...


def _ignore(phase: str, before: int, now: int, write: Callable[[], str] | None = None) -> None:
    pass


@dataclass(frozen=True)
class Reduction:
    """A failing program under reduction, with its oracle and its budget."""

    case: Case
    rungs: tuple[Rung, ...]
    rung: Rung
    """The first that fails."""
    oracle: Oracle
    levels: tuple[GraphLevel, ...] = ("dynamo", "aot")
    """The graphs to reduce, in order of preference."""
    seconds: float = SECONDS
    """Time limit of a fresh interpreter."""
    on_progress: OnProgress = _ignore
    script_of: Callable[[Any], str] = str
    """Returns the script of a reduced graph or text."""
    notes: list[str] = field(default_factory=list)
    call_text: str | None = None
    """The program as the file that called makes it, if that can be told."""
    log: Path | None = None
    """File for the tracebacks of reducers that failed; None: they are dropped."""

    @property
    def program(self) -> Candidate:
        """Return the whole program as the oracle runs it."""
        return Candidate("program", self.case, (self.rung,))

    def skip(self, reducer: str, error: Exception) -> None:
        """Note in one line that a reducer failed, and append its traceback to the log."""
        told = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:_TOLD]
        line = f"The reducer of {reducer} failed and was skipped ({told})."
        if self.log is not None:
            line = f"{line[:-1]}: the traceback is in {self.log.name}."
            with self.log.open("a") as file:
                file.write(f"{reducer}:\n{''.join(traceback.format_exception(error))}\n")
        if line not in self.notes:
            self.notes.append(line)

    def candidate(self, name: str, program: Case | Callable[[], Case]) -> Candidate:
        """Return a candidate that must fail on the failing rung and pass one rung below."""
        place = self.rungs.index(self.rung)
        rungs = self.rungs[max(1, place - 1) : place + 1]
        return Candidate(name, program, rungs, eager_limit=self.oracle.eager_limit)

    @property
    def possible(self) -> tuple[GraphLevel, ...]:
        """Return the graph levels that can be captured without the failing stage."""
        if self.case.wanted in (Kind.BREAK, Kind.RECOMPILE):
            return ()
        backend = self.rung.backend
        is_custom = backend not in [rung.backend for rung in RUNGS]
        good = {"dynamo": backend != "eager", "aot": is_custom or backend == "inductor"}
        return tuple(level for level in self.levels if good[level])
