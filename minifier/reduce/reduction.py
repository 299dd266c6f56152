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
"""Maximum number of characters of an error in a note."""


class OnProgress(Protocol):
    """Callback that receives a phase ("graph", "modules", "source") and the size before and now.

    The size is a number of calls, modules or lines. `write` returns the current script; None if
    there is none yet.
    """

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
    """The first rung that fails."""
    oracle: Oracle
    levels: tuple[GraphLevel, ...] = ("dynamo", "aot")
    """Levels whose graphs to reduce, the preferred one first."""
    seconds: float = SECONDS
    """Time limit, in seconds, of a run in a fresh interpreter."""
    on_progress: OnProgress = _ignore
    script_of: Callable[[Any], str] = str
    """Returns the script for a reduced graph or text."""
    notes: list[str] = field(default_factory=list)
    """Sentences on the reduction, for the result."""
    call_text: str | None = None
    """The program as the file that calls `minify` makes it; None if that is unknown."""
    log: Path | None = None
    """File for the tracebacks of reducers that fail; None: they are dropped."""

    @property
    def program(self) -> Candidate:
        """The whole program as a candidate."""
        return Candidate("program", self.case, (self.rung,))

    def skip(self, reducer: str, error: Exception) -> None:
        """Add a note that a reducer failed, and append its traceback to the log."""
        told = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:_TOLD]
        line = f"The reducer of {reducer} failed and was skipped ({told})."
        if self.log is not None:
            line = f"{line[:-1]}: the traceback is in {self.log.name}."
            with self.log.open("a") as file:
                file.write(f"{reducer}:\n{''.join(traceback.format_exception(error))}\n")
        if line not in self.notes:
            self.notes.append(line)

    def candidate(self, name: str, program: Case | Callable[[], Case]) -> Candidate:
        """Return a candidate with the failing rung and the rung below, on which it must pass."""
        place = self.rungs.index(self.rung)
        rungs = self.rungs[max(1, place - 1) : place + 1]
        return Candidate(name, program, rungs, eager_limit=self.oracle.eager_limit)

    @property
    def possible(self) -> tuple[GraphLevel, ...]:
        """The levels whose graphs can be captured without running the failing stage."""
        if self.case.wanted in (Kind.BREAK, Kind.RECOMPILE):
            return ()
        backend = self.rung.backend
        is_custom = backend not in [rung.backend for rung in RUNGS]
        good = {"dynamo": backend != "eager", "aot": is_custom or backend == "inductor"}
        return tuple(level for level in self.levels if good[level])
