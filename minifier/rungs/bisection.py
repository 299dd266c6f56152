"""Result of a bisection: the outcome on each rung, and the location of the first failure."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fullgraph.compiler.display import Table, View, mimebundle
from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.minifier.oracle.attempt import RungOutcome
from fullgraph.minifier.oracle.candidate import Verdict
from fullgraph.minifier.oracle.failure import Failure
from fullgraph.minifier.rungs.culprit import Culprit
from fullgraph.minifier.rungs.substitution import name_stage

_WIDTH = 160
"""Maximum number of characters of a message in a table."""


@dataclass(frozen=True)
class Cut:
    """Where a graph begins to fail: the last call of its shortest prefix that fails."""

    call: int
    """Number of the prefix's last call, counted from 1."""
    calls: int
    """Number of calls in the whole graph."""
    target: str
    """What the last call calls: "relu", "aten.add.Tensor"."""
    place: str = ""
    """The user's line that makes the call, "model.py:12"; "" if unknown."""
    code: str = ""
    """The source of that line; "" if unknown."""

    def __str__(self) -> str:
        call = f"call {self.call} of {self.calls}, {self.target}"
        where = f", {self.place}" if self.place else ""
        return f"{call}{where}{f': {self.code}' if self.code else ''}"


@dataclass(frozen=True, repr=False)
class Bisection:
    """Outcome of a program on each rung, and where it fails on the first rung that fails."""

    torch: str
    """Version of torch."""
    rungs: Mapping[str, RungOutcome | None]
    """Outcome by rung, from eager up; None for a rung that was not run."""
    culprit: Culprit | None = None
    """The faulty part of the first failing rung; None if it was not found."""
    cut: Cut | None = None
    """The shortest failing prefix of the failing graph; None if no graph fails alone."""
    beside: Mapping[str, RungOutcome] = field(default_factory=dict)
    """Outcome on `loops`, our own backend beside the ladder, if Inductor's stages are to blame."""
    substitutions: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdict on the failing prefix by the stage of the failing rung that is replaced by ours."""
    refused: str | None = None
    """One sentence on why there is nothing to bisect; None if there is something."""
    calls: int = 0
    """Number of programs that ran."""
    seconds: float = 0.0
    """Wall time."""
    notes: tuple[str, ...] = ()
    """Facts about the result, one sentence each."""

    @property
    def failure(self) -> Failure | None:
        """The failure on the first rung that fails; None if no rung does, or if refused."""
        failures = (end.failure for end in self.rungs.values() if end is not None)
        return None if self.refused else next((f for f in failures if f is not None), None)

    @property
    def healthy(self) -> bool:
        """Whether every rung ran and agrees with eager."""
        ends = self.rungs.values()
        return all(end and not (end.failure or end.refused or end.unfinished) for end in ends)

    @property
    def passed(self) -> bool:
        """Whether eager ran and no rung fails."""
        ends = [end for end in self.rungs.values() if end is not None]
        wrong = any(end.failure or end.unfinished for end in ends)
        return bool(ends) and not ends[0].refused and not wrong

    @property
    def first_failing(self) -> str | None:
        """Name of the first rung that fails; None if no rung does."""
        return self.failure.rung if self.failure is not None else None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data, schema 1."""
        failure = self.failure
        return {
            "schema": 1,
            "torch": self.torch,
            "failure": failure
            and {
                "kind": str(failure.kind),
                "signature": list(failure.signature),
                "message": failure.message,
            },
            "rungs": {name: _outcome(end) for name, end in self.rungs.items()},
            "first_failing": self.first_failing,
            "beside": {name: _outcome(end) for name, end in self.beside.items()},
            "stage": self.stage or None,
            "substitutions": {stage: str(verdict) for stage, verdict in self.substitutions.items()},
            "culprit": str(self.culprit) if self.culprit else None,
            "cut": asdict(self.cut) if self.cut else None,
            "refused": self.refused,
            "calls": self.calls,
            "seconds": round(self.seconds, 2),
            "notes": list(self.notes),
        }

    def table(self) -> list[tuple[str, str]]:
        """Return (rung, outcome in words) for each rung, and for `loops` beside them."""
        rows = [(name, _words(end)) for name, end in self.rungs.items()]
        return rows + [(f"{name} (beside)", _words(end)) for name, end in self.beside.items()]

    @property
    def stage(self) -> str:
        """The stage that is wrong by substitution, in one line; "" if none was substituted."""
        ends = self.beside.values()
        return name_stage(self.substitutions, any(end.failure is None for end in ends))

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        failure = self.failure
        if self.refused:
            return self.refused
        if failure is not None:
            return f"{failure.rung} is the first rung that fails ({failure.kind})."
        return "Every rung agrees with eager." if self.healthy else "No rung fails."

    def view(self) -> View:
        """Return the HTML view: a row for each rung, and the location of the failure."""
        where = [("stage", self.stage)] if self.stage else []
        where += [("culprit", str(self.culprit))] if self.culprit else []
        where += [("first wrong after", str(self.cut))] if self.cut else []
        return View(
            self.verdict,
            "good" if self.healthy else "mixed" if self.failure is None else "bad",
            tables=(Table(("rung", "outcome"), self.table()), Table(("where", ""), where)),
            notes=self.notes,
            footer=f"torch {self.torch.partition('+')[0]}, {self.calls} runs, {self.seconds:.0f} s",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mimebundle(str(self), self.view())

    def __str__(self) -> str:
        rows = self.table()
        wide = max((len(name) for name, _ in rows), default=0)
        lines = [f"{name:<{wide}}  {words}" for name, words in rows]
        if self.stage:
            lines.append(f"stage: {self.stage}")
        if self.culprit:
            lines.append(f"culprit: {self.culprit}")
        if self.cut:
            lines.append(f"first wrong after {self.cut}")
        if self.refused:
            lines.append(self.refused)
        lines += self.notes
        return "\n".join(lines)


def _outcome(end: RungOutcome | None) -> str | None:
    """Return "ok" or the kind of failure, such as "crash"; None for a rung without an outcome."""
    if end is None or end.unfinished:
        return None
    return str(end.failure.kind) if end.failure is not None else "ok"


def _words(end: RungOutcome | None) -> str:
    """Return the outcome of a rung for a table: "ok", "not tried", or the failure's message."""
    if end is None:
        return "not tried"
    if end.unfinished:
        return f"not finished: {end.unfinished}"
    if end.failure is not None:
        line = end.failure.message.partition(os.linesep)[0]
        if end.failure.signature[:1] == (UnsupportedOperator.__name__,):
            return f"refused: {line.split(': ', 2)[-1]}"
        return f"{end.failure.kind}: {textwrap.shorten(line, _WIDTH, placeholder=' …')}"
    return f"ok ({end.refused})" if end.refused else "ok"
