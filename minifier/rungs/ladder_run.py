"""Run a program on every rung, from eager up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import has_fork_server, has_process_group
from fullgraph.compiler.ladder import RUNGS, Rung
from fullgraph.minifier.oracle.attempt import EAGER, RungOutcome
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import NOT_BESIDE, Failure, Kind
from fullgraph.minifier.oracle.sandbox import OUT_OF_MEMORY, Report, Tries
from fullgraph.minifier.rungs.bisection import Bisection

TIMES = 3
"""How often a failure must come to be one."""
_INTERPRETED = tuple(rung.backend for rung in RUNGS if rung.backend != "inductor")
"""Backends whose operators are eager's."""


class LadderRun:
    """A program's outcomes on the rungs, requested in groups."""

    def __init__(self, case: Case, rungs: Sequence[Rung], sandbox: Tries) -> None:
        """Try what is below Inductor. What is above it begins meanwhile, if several are tried at a
        time: Inductor is loaded beside."""
        if case.wanted in NOT_BESIDE:
            sandbox.one_at_a_time()
        self._case, self._rungs, self._sandbox = case, rungs, sandbox
        low = [rung for rung in rungs if rung.backend not in (None, "inductor")]
        top = [rung for rung in rungs if rung.backend == "inductor"]
        self._groups = [group for group in (low, top) if group]
        self._waits = [self._begin(0)]
        if sandbox.jobs > 1:
            self._waits += [self._begin(number) for number in range(1, len(self._groups))]
        self._ends = _run_remaining_rungs(case, self._groups[0], self._waits[0], sandbox)

    @property
    def last(self) -> Rung | None:
        """The rung that is still being tried, if it is one and nothing below it is wrong."""
        alone = len(self._waits) == 2 and len(self._groups[1]) == 1
        wrong = any(end.failure or end.refused for end in self._ends.values())
        return self._groups[1][0] if alone and not wrong else None

    @cached_property
    def bisection(self) -> Bisection:
        """Wait for every rung's outcome.

        Afterwards cases run one at a time if the failure depends on what runs beside it."""
        for number in range(1, len(self._groups)):
            if self._ends[EAGER].failure or self._ends[EAGER].refused:
                break
            if any(map(_hangs, self._ends.values())):
                break
            wait = self._waits[number] if number < len(self._waits) else self._begin(number)
            ends = _run_remaining_rungs(self._case, self._groups[number], wait, self._sandbox)
            self._ends = ends | self._ends
        told = {rung.name: self._ends.get(rung.name) for rung in self._rungs}
        refused = _refusal(self._ends) or None
        found = Bisection(torch.__version__, told, refused=refused, notes=(*_ranks(), *_away()))
        if found.failure is not None and found.failure.kind in NOT_BESIDE:
            self._sandbox.one_at_a_time()
        return found

    def _begin(self, number: int) -> Callable[[], Report]:
        return self._sandbox.ask(
            self._case, self._groups[number], every=True, repeat_eager=number == 0
        )


def retry_with_threads(
    found: Bisection, case: Case, rungs: Sequence[Rung], sandbox: Tries
) -> Bisection:
    """Return `found`; if nothing fails, the bisection with the process's thread count.

    If that fails, later candidates run with those threads. Only compiled code depends on them."""
    compiles = any(rung.backend not in _INTERPRETED for rung in rungs)
    if case.wanted in (Kind.BREAK, Kind.RECOMPILE) or not (found.healthy and compiles):
        return found
    if not sandbox.many_threads():
        return found
    again = LadderRun(case, rungs, sandbox).bisection
    if again.failure is None:
        return found
    note = f"It fails with {sandbox.threads} threads, and not with one."
    return replace(again, notes=(*again.notes, note))


def _away() -> tuple[str, ...]:
    if not has_fork_server():
        return ()
    return (
        "It was tried in a fresh process: what was changed in imported modules is not so there.",
    )


def rung_of(rungs: Sequence[Rung], failure: Failure) -> Rung:
    """Return the rung on which a failure happened."""
    return next(rung for rung in rungs if rung.name == failure.rung)


def check_reproducible(
    case: Case, rung: Rung, failure: Failure, sandbox: Tries
) -> Callable[[], str]:
    """Start running the failure again; the returned function waits for the verdict.

    It returns why the failure cannot be reduced (it is intermittent, or varies), or ""."""
    asked = again(case, rung, sandbox, TIMES - 1)

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
    case: Case | Callable[[], Case], rung: Rung, sandbox: Tries, times: int
) -> list[Callable[[], Report]]:
    """Start running `case` repeatedly, all at once if several may run at a time."""
    asked = []
    for _ in range(times):
        asked.append(sandbox.ask(case, [rung]))
        if sandbox.jobs == 1:
            asked[-1]()
    return asked


def _run_remaining_rungs(
    case: Case, left: list[Rung], wait: Callable[[], Report], sandbox: Tries
) -> dict[str, RungOutcome]:
    """Return the outcomes of the rungs `left`, which `wait` reports.

    A rung that kills its child is followed by a new child."""
    ends: dict[str, RungOutcome] = {}
    while True:
        report = wait()
        if OUT_OF_MEMORY in report.broken and sandbox.jobs > 1:
            sandbox.one_at_a_time()  # they shared a device
            wait = sandbox.ask(case, left, every=True)
            continue
        if report.broken and (OUT_OF_MEMORY in report.broken or not report.ends):
            raise FullgraphError(report.broken)
        ends = {end.rung: end for end in report.ends} | ends
        last = report.ends[-1]
        names = [rung.name for rung in left]
        if last.rung not in names[:-1] or _hangs(last):
            return ends
        left = left[names.index(last.rung) + 1 :]
        wait = sandbox.ask(case, left, every=True)


def _hangs(end: RungOutcome) -> bool:
    return end.failure is not None and end.failure.kind is Kind.HANG


def _refusal(ends: Mapping[str, RungOutcome]) -> str:
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
    """Return a note if the other ranks were missing."""
    others = torch.distributed.get_world_size() - 1 if has_process_group() else 0
    if not others:
        return ()
    return (
        f"The collectives were computed without the other ranks ({others}): shapes are the real "
        "ones, sums and gathered values are made of this rank's alone.",
    )
