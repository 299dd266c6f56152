"""A question to the oracle, and its answer."""

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
    """Equal for equal programs, also in another process: "graph 3f2a", "source 91bc"."""
    program: Case | Callable[[], Case]
    """A function is called in the child; if it raises, the candidate could not be tried."""
    rungs: tuple[Rung, ...]
    attempt: int = 1
    """Number of this run among those of the same program; each attempt runs it again."""
    every: bool = False
    """Whether to run on the rungs after the first failure, too."""
    repeat_eager: bool = False
    eager_limit: float | None = None
    """Seconds that making the program, and eager, may each take; None: the sandbox's limit."""
    limit: tuple[Subsystem, int] | None = None
    """A subsystem, and how often it is applied at most."""
    without: tuple[Subsystem, ...] = ()
    """Subsystems that are disabled."""

    @property
    def key(self) -> str:
        """Key of the question whether this candidate fails, the same in every process."""
        rungs = "+".join(rung.name for rung in self.rungs)
        limit = f" limit {self.limit[0].name} {self.limit[1]}" if self.limit else ""
        without = f" without {[part.name for part in self.without]}" if self.without else ""
        return f"{self.name} on {rungs}{limit}{without} #{self.attempt}"

    def case(self) -> Case:
        """Return the program. Raises whatever the function that makes it raises."""
        return self.program if isinstance(self.program, Case) else self.program()


class Verdict(StrEnum):
    """Answer to whether a candidate fails in the same way as the program."""

    SAME = "same failure"
    OTHER = "other failure"
    PASSES = "passes"
    UNRESOLVED = "unresolved"
    """It could not be tried, or hangs where the program fails otherwise."""


@dataclass(frozen=True)
class Report:
    """Outcomes of a candidate on its rungs."""

    ends: tuple[RungOutcome, ...]
    broken: str = ""
    """One sentence on why it could not be tried."""
    applied: tuple[str, ...] = ()
    """What a limited subsystem did, one entry an application."""

    @property
    def failure(self) -> Failure | None:
        """Return the first failure."""
        return next((end.failure for end in self.ends if end.failure is not None), None)

    def verdict(self, expected: Failure) -> Verdict:
        """Return the verdict on a candidate that should fail like `expected`."""
        failure = self.failure
        if self.broken or (failure is not None and failure.rung == EAGER):
            return Verdict.UNRESOLVED
        if failure is None:
            return Verdict.PASSES
        if failure.same(expected):
            return Verdict.SAME
        limits = (Kind.HANG, Kind.MEMORY)
        return Verdict.UNRESOLVED if failure.kind in limits else Verdict.OTHER
