"""Candidates, and the oracle's answers on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private import Subsystem
from fullgraph.minifier.oracle.attempt import EAGER, RungOutcome
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Failure, Kind


@dataclass(frozen=True, eq=False)
class Candidate:
    """A program to run in eager and on some rungs."""

    name: str
    """Equal for equal programs, in every process: "graph 3f2a", "source 91bc"."""
    program: Case | Callable[[], Case]
    """The case, or a function that makes it in the child; if that raises, there is no verdict."""
    rungs: tuple[Rung, ...]
    attempt: int = 1
    """Number of this run of the program, from 1; each attempt runs it again."""
    alone: bool = False
    """Whether this run is one that no other candidate runs beside."""
    every: bool = False
    """Whether to run the rungs after the first failing one, too."""
    repeat_eager: bool = False
    """Whether to run eager twice, to see whether its results vary."""
    eager_limit: float | None = None
    """Seconds that making the case, and its eager run, may each take; None: no such limit."""
    limit: tuple[Subsystem, int] | None = None
    """A subsystem, and the maximum number of times that it is applied."""
    without: tuple[Subsystem, ...] = ()
    """Subsystems that are disabled."""

    @property
    def key(self) -> str:
        """Key of the candidate in the oracle's memory and journal, the same in every process."""
        rungs = "+".join(rung.name for rung in self.rungs)
        limit = f" limit {self.limit[0].name} {self.limit[1]}" if self.limit else ""
        without = f" without {[part.name for part in self.without]}" if self.without else ""
        return f"{self.name} on {rungs}{limit}{without} #{self.attempt}"

    def case(self) -> Case:
        """Return the case; make it if `program` is a function. Raises what that raises."""
        return self.program if isinstance(self.program, Case) else self.program()


class Verdict(StrEnum):
    """Answer to whether a candidate fails in the same way as the program."""

    SAME = "same failure"
    OTHER = "other failure"
    PASSES = "passes"
    UNRESOLVED = "unresolved"
    """It could not be run or fails in eager, or exceeds a limit that the program does not."""


@dataclass(frozen=True)
class Report:
    """Outcomes of a candidate on its rungs."""

    ends: tuple[RungOutcome, ...]
    """Outcome of each rung that ran, eager first."""
    broken: str = ""
    """One sentence on why the candidate could not be run; "" if it ran."""
    applied: tuple[str, ...] = ()
    """What each application of a limited subsystem did."""

    @property
    def failure(self) -> Failure | None:
        """The failure on the first rung that fails; None if no rung does."""
        return next((end.failure for end in self.ends if end.failure is not None), None)

    @property
    def unfinished(self) -> str:
        """Clause on why the last rung has no outcome; "" if it has one."""
        return self.ends[-1].unfinished if self.ends else ""

    def verdict(self, expected: Failure) -> Verdict:
        """Return the verdict on the candidate, for a program that fails with `expected`."""
        failure = self.failure
        if self.broken or self.unfinished or (failure is not None and failure.rung == EAGER):
            return Verdict.UNRESOLVED
        if failure is None:
            return Verdict.PASSES
        if failure.same(expected):
            return Verdict.SAME
        limits = (Kind.HANG, Kind.MEMORY)
        return Verdict.UNRESOLVED if failure.kind in limits else Verdict.OTHER
