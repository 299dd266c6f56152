"""Which part of a stage is wrong: a decomposition, a pass, a lowering, a setting."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private.subsystems import Subsystem, subsystems
from fullgraph.minifier.case import Case
from fullgraph.minifier.failure import Failure
from fullgraph.minifier.problem import Verdict
from fullgraph.minifier.sandbox import Report, Tries

_FAR = 1 << 16
"""More applications than any program needs."""


@dataclass(frozen=True)
class Culprit:
    """The part without which the failure is gone."""

    rung: str
    part: str
    """PyTorch's name for it: "lowerings", "decomposition", "inductor_layout_optimization"."""
    number: int | None
    """The application that brings the failure, counted from 1; None for a setting."""
    what: str
    """What is applied there, as PyTorch tells: a pass, a node, an operator."""

    def __str__(self) -> str:
        if self.number is None:
            return f"{self.part}: {self.what}"
        return f"{self.part}, application {self.number}{self.what and f': {self.what}'}"


def culprit(case: Case, rung: Rung, failure: Failure, sandbox: Tries) -> Culprit | None:
    """The first part of `rung` without which `case` does not fail any more; None if there is
    none, or this torch cannot switch parts off."""
    for part in subsystems():
        if part.rung != rung.backend:
            continue
        search = _Search(case, rung, failure, sandbox, part)
        if search.fails(0):
            continue
        if part.setting is not None:
            _, name, value = part.setting
            return Culprit(rung.name, part.name, None, f"{name}={value!r} mends it")
        number = search.least()
        if number:
            return Culprit(rung.name, part.name, number, search.what(number))
    return None


class _Search:
    """The least number of applications of a part with which a case fails."""

    def __init__(
        self, case: Case, rung: Rung, failure: Failure, sandbox: Tries, part: Subsystem
    ) -> None:
        self._case, self._rung, self._failure = case, rung, failure
        self._sandbox, self._part = sandbox, part
        self._reports: dict[int, Report] = {}

    def fails(self, limit: int) -> bool:
        if limit not in self._reports:
            self._reports[limit] = self._sandbox.report(
                self._case, [self._rung], limit=(self._part, limit)
            )
        return self._reports[limit].verdict(self._failure) is Verdict.SAME

    def least(self) -> int | None:
        if not self.fails(_FAR):
            return None  # counting itself changes what happens
        low, high = 0, len(self._reports[_FAR].applied)
        while high - low > 1:
            middle = (low + high) // 2
            if self.fails(middle):
                high = middle
            else:
                low = middle
        return high or None

    def what(self, number: int) -> str:
        applied = self._reports[_FAR].applied
        return applied[number - 1] if number <= len(applied) else ""
