"""A program tried on every rung, from eager up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from fullgraph.compiler import groups
from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.ladder import Rung
from fullgraph.minifier.attempt import EAGER, Ended
from fullgraph.minifier.bisection import Bisection
from fullgraph.minifier.case import Case
from fullgraph.minifier.failure import NOT_BESIDE, Failure, Kind
from fullgraph.minifier.sandbox import Report, Tries

TIMES = 3
"""How often a failure must come to be one."""


def climb(case: Case, rungs: Sequence[Rung], sandbox: Tries) -> Bisection:
    """Every rung's outcome."""
    ends = _all(case, rungs, sandbox)
    told = {rung.name: ends.get(rung.name) for rung in rungs}
    return Bisection(torch.__version__, told, refused=_refusal(ends) or None, notes=_ranks())


def rung_of(rungs: Sequence[Rung], failure: Failure) -> Rung:
    return next(rung for rung in rungs if rung.name == failure.rung)


def unsteady(
    case: Case, rungs: Sequence[Rung], failure: Failure, sandbox: Tries
) -> Callable[[], str]:
    """Begin to try again. What is returned waits, and tells why the failure cannot be reduced: it
    does not come each time, or not the same; "" if it does."""
    asked = again(case, rung_of(rungs, failure), failure, sandbox, TIMES - 1)

    def why() -> str:
        for number, wait in enumerate(asked, 2):
            found = wait().failure
            if found is None:
                return (
                    f"It fails only sometimes: {failure}, but not in try {number} of {TIMES}; "
                    "make the program deterministic first."
                )
            if not failure.same(found):
                return f"It fails differently each time: {failure}, then {found}."
        return ""

    return why


def again(
    case: Case | Callable[[], Case], rung: Rung, failure: Failure, sandbox: Tries, times: int
) -> list[Callable[[], Report]]:
    """Begin to try `case` so many times, all at once where the failure allows that."""
    asked = []
    for _ in range(times):
        asked.append(sandbox.ask(case, [rung]))
        if failure.kind in NOT_BESIDE or sandbox.jobs == 1:
            asked[-1]()
    return asked


def _all(case: Case, rungs: Sequence[Rung], sandbox: Tries) -> dict[str, Ended]:
    """How every rung ends: a rung that kills its child is followed by a new child."""
    ends: dict[str, Ended] = {}
    left = [rung for rung in rungs if rung.backend is not None]
    first = True
    while left:
        report = sandbox.report(case, left, every=True, repeat_eager=first)
        if report.broken and not report.ends:
            raise FullgraphError(report.broken)
        ends.update({end.rung: end for end in report.ends if first or end.rung != EAGER})
        last = report.ends[-1]
        if last.refused or last.rung == EAGER or _is_hang(last.failure):
            break
        names = [rung.name for rung in left]
        left = left[names.index(last.rung) + 1 :]
        first = False
    return ends


def _is_hang(failure: Failure | None) -> bool:
    return failure is not None and failure.kind is Kind.HANG


def _refusal(ends: Mapping[str, Ended]) -> str:
    eager = ends[EAGER]
    if eager.failure is not None:
        said = eager.failure.message.partition("\n")[0]
        return f"The program fails in eager already ({said}): no compiler is to blame."
    if eager.refused:
        return f"There is nothing to compare with: {eager.refused}."
    if any(end.failure is not None for end in ends.values()):
        return ""
    closer = [name for name, end in ends.items() if end.refused]
    if closer:
        return (
            f"{', '.join(closer)} and eager differ, and {ends[closer[0]].refused}: "
            "that is no failure of the compiler."
        )
    return "Nothing fails: every rung gives what eager gives."


def _ranks() -> tuple[str, ...]:
    """A note where the other ranks were missing."""
    others = torch.distributed.get_world_size() - 1 if groups.live() else 0
    if not others:
        return ()
    return (
        f"The collectives were computed without the other ranks ({others}): shapes are the real "
        "ones, sums and gathered values are made of this rank's alone.",
    )
