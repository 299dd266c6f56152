"""Find the faulty part of a stage: a decomposition, a pass, a lowering, a setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from fullgraph.compiler.private import Subsystem, list_subsystems
from fullgraph.minifier.oracle.candidate import Candidate, Report, Verdict
from fullgraph.minifier.oracle.oracle import Oracle

_FAR = 1 << 16
"""Limit above the number of applications of a subsystem in any program."""
_LIKELY = "lowerings"
"""The subsystem that causes most failures, which is tried alone."""


@dataclass(frozen=True)
class Culprit:
    """The part of a rung that causes the failure: if it is disabled, the program passes."""

    rung: str
    part: str
    """PyTorch's name for the subsystem: "lowerings", "inductor_layout_optimization"."""
    number: int | None
    """Number of the application that causes the failure, from 1; None for a setting."""
    what: str
    """What that application does, in PyTorch's terms: a pass, a node, an operator."""

    def __str__(self) -> str:
        if self.number is None:
            return f"{self.part}: {self.what}"
        return f"{self.part}, application {self.number}{self.what and f': {self.what}'}"


def find_culprit(candidate: Candidate, oracle: Oracle) -> Culprit | None:
    """Return the first part of the failing rung which, if disabled, makes the candidate pass.

    The rung is the candidate's last one. A part is a pass, a lowering, a decomposition or a
    setting. None if there is no such part, or if this version of torch cannot disable parts.
    """
    (rung,) = candidate.rungs[-1:]
    parts = [part for part in list_subsystems() if part.rung == rung.backend]
    search = _Search(replace(candidate, rungs=(rung,)), oracle)
    groups = _groups(parts)
    for number, group in enumerate(groups):
        for ahead in groups[number : number + oracle.sandbox.jobs]:
            search.run_without(ahead)
        for part in search.find_fixing(group):
            if part.setting is not None:
                _, name, value = part.setting
                return Culprit(rung.name, part.name, None, f"{name}={value!r} fixes it")
            applications = _Applications(search, part)
            least = applications.find_least()
            if least:
                return Culprit(rung.name, part.name, least, applications.describe(least))
    return None


def _groups(parts: Sequence[Subsystem]) -> list[Sequence[Subsystem]]:
    """Split `parts`, in order, into up to three groups, each to be disabled together.

    The second group is the subsystem that causes most failures, alone: "lowerings".
    """
    place = next((n for n, part in enumerate(parts) if part.name == _LIKELY), len(parts))
    groups = [parts[:place], parts[place : place + 1], parts[place + 1 :]]
    return [group for group in groups if group]


@dataclass(frozen=True)
class _Search:
    """Search that disables parts of the compiler to find one without which a candidate passes."""

    candidate: Candidate
    oracle: Oracle

    def run_without(self, parts: Sequence[Subsystem]) -> Future[Report]:
        """Start a run of the candidate with `parts` disabled."""
        return self.oracle.report(replace(self.candidate, without=tuple(parts)))

    def run_limited(self, part: Subsystem, limit: int) -> Future[Report]:
        """Start a run of the candidate with at most `limit` applications of `part`."""
        return self.oracle.report(replace(self.candidate, limit=(part, limit)))

    def fails(self, report: Future[Report]) -> bool:
        return report.result().verdict(self.oracle.expected) is Verdict.SAME

    def passes(self, report: Future[Report]) -> bool:
        """Return whether the candidate passes, rather than failing in another way."""
        return report.result().verdict(self.oracle.expected) is Verdict.PASSES

    def find_fixing(self, parts: Sequence[Subsystem]) -> Iterator[Subsystem]:
        """Yield each subsystem with which disabled, alone, the candidate passes.

        Yields nothing if the candidate fails with all of `parts` disabled. A bisection finds the
        first.
        """
        if self.fails(self.run_without(parts)):
            return
        low, high = 0, len(parts)
        while high - low > 1:
            middle = (low + high) // 2
            if self.fails(self.run_without(parts[:middle])):
                low = middle
            else:
                high = middle
        for part in (parts[low], *parts[:low], *parts[high:]):
            if self.passes(self.run_without([part])):
                yield part


class _Applications:
    """The applications of one subsystem while a candidate compiles, numbered from 1.

    The lowering of one node, for example, is one application of the subsystem "lowerings".
    """

    def __init__(self, search: _Search, part: Subsystem) -> None:
        self._search, self._part = search, part

    def _fails(self, limit: int) -> bool:
        return self._search.fails(self._search.run_limited(self._part, limit))

    @property
    def _applied(self) -> tuple[str, ...]:
        return self._search.run_limited(self._part, _FAR).result().applied

    def find_least(self) -> int | None:
        """Return the smallest number of applications with which the candidate fails.

        None if it passes when the applications are counted.
        """
        if not self._fails(_FAR):
            return None  # counting itself changes what happens
        low, high = 0, len(self._applied)
        parts = self._search.oracle.sandbox.jobs + 1
        while high - low > 1:
            cuts = sorted({low + max(1, (high - low) * n // parts) for n in range(1, parts)})
            for cut in cuts:
                self._search.run_limited(self._part, cut)
            for cut in cuts:
                if self._fails(cut):
                    high = cut
                    break
                low = cut
        return high or None

    def describe(self, number: int) -> str:
        """Return what application `number`, from 1, does; "" if unknown."""
        return self._applied[number - 1] if number <= len(self._applied) else ""
