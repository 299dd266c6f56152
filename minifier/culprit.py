"""Which part of a stage is wrong: a decomposition, a pass, a lowering, a setting."""

from __future__ import annotations

from collections.abc import Callable
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
    parts = [part for part in subsystems() if part.rung == rung.backend]
    searches = [_Search(case, rung, failure, sandbox, part) for part in parts]
    for number, search in enumerate(searches):
        for ahead in searches[number : number + sandbox.jobs]:
            ahead.ask(0)
        if search.fails(0):
            continue
        part = search.part
        if part.setting is not None:
            _, name, value = part.setting
            return Culprit(rung.name, part.name, None, f"{name}={value!r} mends it")
        least = search.least()
        if least:
            return Culprit(rung.name, part.name, least, search.what(least))
    return None


class _Search:
    """The least number of applications of a part with which a case fails."""

    def __init__(
        self, case: Case, rung: Rung, failure: Failure, sandbox: Tries, part: Subsystem
    ) -> None:
        self._case, self._rung, self._failure = case, rung, failure
        self._sandbox, self.part = sandbox, part
        self._asked: dict[int, Callable[[], Report]] = {}

    def ask(self, limit: int) -> Callable[[], Report]:
        """Begin to try the case with so many applications, if that was not done before."""
        if limit not in self._asked:
            self._asked[limit] = self._sandbox.ask(
                self._case, [self._rung], limit=(self.part, limit)
            )
        return self._asked[limit]

    def fails(self, limit: int) -> bool:
        return self.ask(limit)().verdict(self._failure) is Verdict.SAME

    def least(self) -> int | None:
        if not self.fails(_FAR):
            return None  # counting itself changes what happens
        low, high = 0, len(self.ask(_FAR)().applied)
        parts = self._sandbox.jobs + 1
        while high - low > 1:
            cuts = sorted({low + max(1, (high - low) * n // parts) for n in range(1, parts)})
            for cut in cuts:
                self.ask(cut)
            for cut in cuts:
                if self.fails(cut):
                    high = cut
                    break
                low = cut
        return high or None

    def what(self, number: int) -> str:
        applied = self.ask(_FAR)().applied
        return applied[number - 1] if number <= len(applied) else ""
