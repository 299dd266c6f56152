"""Find the faulty part of a stage: a decomposition, a pass, a lowering, a setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private import Subsystem, list_subsystems
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Failure
from fullgraph.minifier.oracle.problem import Verdict
from fullgraph.minifier.oracle.sandbox import Report, Tries

_FAR = 1 << 16
"""More applications than any program needs."""
_LIKELY = "lowerings"
"""The part that most failures need."""


@dataclass(frozen=True)
class Culprit:
    """The part without which the failure disappears."""

    rung: str
    part: str
    """PyTorch's name for it: "lowerings", "decomposition", "inductor_layout_optimization"."""
    number: int | None
    """The application that causes the failure, counted from 1; None for a setting."""
    what: str
    """What is applied there, in PyTorch's terms: a pass, a node, an operator."""

    def __str__(self) -> str:
        if self.number is None:
            return f"{self.part}: {self.what}"
        return f"{self.part}, application {self.number}{self.what and f': {self.what}'}"


def culprit(case: Case, rung: Rung, failure: Failure, sandbox: Tries) -> Culprit | None:
    """Return the first part of `rung` without which `case` no longer fails.

    None if there is none, or if this torch cannot switch parts off."""
    parts = [part for part in list_subsystems() if part.rung == rung.backend]
    search = _Search(case, rung, failure, sandbox)
    groups = _groups(parts)
    for number, group in enumerate(groups):
        for ahead in groups[number : number + sandbox.jobs]:
            search.without(ahead)
        for part in search.mending(group):
            if part.setting is not None:
                _, name, value = part.setting
                return Culprit(rung.name, part.name, None, f"{name}={value!r} mends it")
            applications = _Applications(search, part)
            least = applications.least()
            if least:
                return Culprit(rung.name, part.name, least, applications.what(least))
    return None


def _groups(parts: Sequence[Subsystem]) -> list[Sequence[Subsystem]]:
    """Return the parts in their order, the likeliest in a group of its own."""
    place = next((n for n, part in enumerate(parts) if part.name == _LIKELY), len(parts))
    groups = [parts[:place], parts[place : place + 1], parts[place + 1 :]]
    return [group for group in groups if group]


class _Search:
    """Outcomes of a failing case without parts of a rung."""

    def __init__(self, case: Case, rung: Rung, failure: Failure, sandbox: Tries) -> None:
        self._case, self._rung, self._failure = case, rung, failure
        self.sandbox = sandbox
        self._asked: dict[object, Callable[[], Report]] = {}

    def without(self, parts: Sequence[Subsystem]) -> Callable[[], Report]:
        """Start trying the case without some parts, unless that was done."""
        return self._ask(tuple(parts), without=parts)

    def limited(self, part: Subsystem, limit: int) -> Callable[[], Report]:
        """Start trying the case with a limited number of applications of a part."""
        return self._ask((part, limit), limit=(part, limit))

    def _ask(self, key: object, **how: Any) -> Callable[[], Report]:
        if key not in self._asked:
            self._asked[key] = self.sandbox.ask(self._case, [self._rung], **how)
        return self._asked[key]

    def same(self, wait: Callable[[], Report]) -> bool:
        return wait().verdict(self._failure) is Verdict.SAME

    def mending(self, parts: Sequence[Subsystem]) -> Iterator[Subsystem]:
        """Return the parts without each of which the case no longer fails.

        Empty if it fails without all of them. More and more parts are left out to find the first.
        """
        if self.same(self.without(parts)):
            return
        low, high = 0, len(parts)
        while high - low > 1:
            middle = (low + high) // 2
            if self.same(self.without(parts[:middle])):
                low = middle
            else:
                high = middle
        for part in (parts[low], *parts[:low], *parts[high:]):
            if not self.same(self.without([part])):
                yield part


class _Applications:
    """Applications of a part that PyTorch counts."""

    def __init__(self, search: _Search, part: Subsystem) -> None:
        self._search, self._part = search, part

    def _fails(self, limit: int) -> bool:
        return self._search.same(self._search.limited(self._part, limit))

    @property
    def _applied(self) -> tuple[str, ...]:
        return self._search.limited(self._part, _FAR)().applied

    def least(self) -> int | None:
        """Return the least number of applications with which the case fails."""
        if not self._fails(_FAR):
            return None  # counting itself changes what happens
        low, high = 0, len(self._applied)
        parts = self._search.sandbox.jobs + 1
        while high - low > 1:
            cuts = sorted({low + max(1, (high - low) * n // parts) for n in range(1, parts)})
            for cut in cuts:
                self._search.limited(self._part, cut)
            for cut in cuts:
                if self._fails(cut):
                    high = cut
                    break
                low = cut
        return high or None

    def what(self, number: int) -> str:
        """Return what a numbered application is."""
        return self._applied[number - 1] if number <= len(self._applied) else ""
