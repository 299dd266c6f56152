"""Run a program on every rung, from eager up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import has_fork_server, has_process_group
from fullgraph.compiler.ladder import RUNGS, Rung
from fullgraph.minifier.oracle.attempt import EAGER, RungOutcome
from fullgraph.minifier.oracle.candidate import Candidate, Report
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import NOT_BESIDE, Failure, Kind
from fullgraph.minifier.oracle.oracle import Oracle
from fullgraph.minifier.oracle.sandbox import OUT_OF_MEMORY
from fullgraph.minifier.rungs.bisection import Bisection

_LOW_RUNS, _TOP_RUNS = 5, 3
"""Runs of a program that does not fail, on the rungs below Inductor and on Inductor."""
TIMES = 3
"""Number of consecutive reproductions required before a failure is reduced."""
_EAGER = 5.0
"""Minimum time limit of a candidate in eager, in seconds."""
_BEGUN = 60.0
"""Seconds added to time limits where a child of the fork server initialises a device first."""
_INTERPRETED = tuple(rung.backend for rung in RUNGS if rung.backend != "inductor")
"""Backends that run the operators of eager."""


class ReductionRefused(Exception):
    """Raised if a failure cannot be reduced; the message is one sentence on why."""


def run_ladder(
    case: Case,
    rungs: Sequence[Rung],
    oracle: Oracle,
    *,
    stop_at_dynamo: bool = False,
    again: bool = True,
) -> Bisection:
    """Run the program on each rung, from eager up, and return the outcomes.

    With `stop_at_dynamo`, a failure on the first compiled rung ends this: Inductor takes longest,
    and does not matter for a failure in capture. If no rung fails, all run again with the program's
    own thread count, on which compiled code depends, and then, with `again`, several times. Later
    candidates run with the thread count, and as many at a time, as the failure requires.
    """
    early = stop_at_dynamo and any(rung.needs_inductor for rung in rungs)
    found = _run_ladder(case, rungs, oracle, stop_early=early)
    compiles = any(rung.backend not in _INTERPRETED for rung in rungs)
    if case.wanted in (Kind.BREAK, Kind.RECOMPILE) or not found.healthy:
        return found
    if compiles and oracle.sandbox.use_many_threads():
        threaded = _run_ladder(case, rungs, oracle)
        if threaded.failure is not None:
            note = f"It fails with {oracle.sandbox.threads} threads, and not with one."
            return replace(threaded, notes=(*threaded.notes, note))
    return _run_healthy_again(case, rungs, oracle, found) if again else found


def _run_healthy_again(
    case: Case, rungs: Sequence[Rung], oracle: Oracle, found: Bisection
) -> Bisection:
    """Run a program of which nothing failed again; say whether, and how often, a rung fails.

    A failure may come and go. The rungs below Inductor take little time and run more often.
    """
    top = tuple(rung for rung in rungs if rung.backend == "inductor")
    low = tuple(rung for rung in rungs if rung.backend not in (None, "inductor"))
    counts = [pair for pair in ((low, _LOW_RUNS), (top, _TOP_RUNS)) if pair[0]]
    for group, count in counts:
        if oracle.is_out_of_budget():
            return found
        candidate = Candidate(_ladder_name(case), case, group, every=True)
        reports = [*run_again(candidate, oracle, count)]
        if any(report.broken or report.unfinished for report in reports):
            return found
        failed = [report.failure for report in reports if report.failure is not None]
        if failed:
            refused = (
                f"It fails only sometimes: {failed[0]}, in {len(failed)} of {count} runs; make the "
                "program deterministic first."
            )
            return replace(found, refused=refused)
    runs = " and ".join(f"{count} runs of {group[-1].name}" for group, count in counts)
    return replace(found, refused=f"{str(found.refused).removesuffix('.')}, in {runs}.")


def _run_ladder(
    case: Case,
    rungs: Sequence[Rung],
    oracle: Oracle,
    *,
    stop_early: bool = False,
) -> Bisection:
    """Run the program on each rung and return the outcomes.

    Inductor runs concurrently with the rungs below it. With `stop_early`, the first rung runs
    before all others, which run only if it passes.
    """
    if case.wanted in NOT_BESIDE:
        oracle.sandbox.limit_to_one_job()
    low = tuple(rung for rung in rungs if rung.backend not in (None, "inductor"))
    top = tuple(rung for rung in rungs if rung.backend == "inductor")
    together = [low[:1], low[1:], top] if stop_early else [low, top]
    groups = [
        Candidate(_ladder_name(case), case, group, every=True, repeat_eager=number == 0)
        for number, group in enumerate(filter(None, together))
    ]
    first = oracle.report(groups[0])
    if stop_early and first.result().failure is not None:
        groups = groups[:1]
    if oracle.sandbox.jobs > 1:
        for candidate in groups:
            oracle.report(candidate)  # Inductor is loaded while the first one runs
    ends: dict[str, RungOutcome] = {}
    for candidate in groups:
        if ends and (ends[EAGER].failure or ends[EAGER].refused or any(map(_hangs, ends.values()))):
            break
        ends = _run_remaining_rungs(candidate, oracle) | ends
    outcomes = {rung.name: ends.get(rung.name) for rung in rungs}
    refused = _reason_to_refuse(ends, case.wanted) or None
    found = Bisection(
        torch.__version__,
        outcomes,
        refused=refused,
        notes=(*_missing_ranks_note(), *_fresh_process_note()),
    )
    if found.failure is not None and found.failure.kind in NOT_BESIDE:
        oracle.sandbox.limit_to_one_job()
    return found


def _ladder_name(case: Case) -> str:
    """Return the name of a candidate that is the whole program, up to one of its calls."""
    return f"ladder of call {len(case.earlier) + 1}" if case.earlier else "ladder"


def find_failing_call(
    cases: Sequence[Case], rungs: Sequence[Rung], oracle: Oracle, *, stop_at_dynamo: bool = False
) -> tuple[Case, Bisection]:
    """Run the ladder for each call in turn, up to the first one that fails; return both.

    `cases` are the program up to each call, the first one first. Where the failing call fails alike
    without the earlier ones, they are left out.
    """
    for case in cases:
        oracle.sandbox.use_one_thread()
        is_last = case is cases[-1]
        found = run_ladder(case, rungs, oracle, stop_at_dynamo=stop_at_dynamo, again=is_last)
        if found.failure is not None or not found.healthy:
            break
    if found.failure is None or not case.earlier:
        return case, found
    alone = replace(case, earlier=())
    number, rung = len(case.earlier) + 1, rung_of(rungs, found.failure)
    candidate = Candidate(f"call {number} alone", alone, (rung,))
    if found.failure.same(oracle.report(candidate).result().failure):
        return alone, found
    note = f"It fails in call {number}, and not if that call is the first one."
    return case, replace(found, notes=(*found.notes, note))


def expect_failure(found: Bisection, oracle: Oracle) -> None:
    """Make the failure of `found` the one that candidates must show, and set their time limits.

    A candidate may not take much longer than the whole program did.
    """
    assert found.failure is not None
    oracle.expected = found.failure
    ends = [end for end in found.rungs.values() if end is not None]
    hangs = any(map(_hangs, ends))
    took = sum(end.seconds for end in ends if not _hangs(end))
    begun = _BEGUN if has_fork_server() else 0.0
    limit = begun + max(5.0 if hangs else 30.0, 10 * took)
    oracle.sandbox.seconds = min(oracle.sandbox.seconds, limit)
    eager = found.rungs.get(EAGER)
    oracle.eager_limit = begun + max(_EAGER, 20 * (eager.seconds if eager else 0.0))


def _fresh_process_note() -> tuple[str, ...]:
    """Return the note that the program ran in another, fresh process; () if it ran in this one.

    Changes that the user made to imported modules are missing there.
    """
    if not has_fork_server():
        return ()
    return (
        "It was tried in a fresh process: what was changed in imported modules is not so there.",
    )


def rung_of(rungs: Sequence[Rung], failure: Failure) -> Rung:
    """Return the rung on which a failure happened."""
    return next(rung for rung in rungs if rung.name == failure.rung)


def run_again(candidate: Candidate, oracle: Oracle, times: int = TIMES) -> Iterator[Report]:
    """Start more runs of a candidate, to `times` in all; return an iterator of the reports.

    They run its last rung, or with `every` all rungs, as many at a time as the sandbox allows.
    """
    jobs = oracle.sandbox.jobs
    rungs = candidate.rungs if candidate.every else candidate.rungs[-1:]
    attempts = [replace(candidate, rungs=rungs, attempt=number + 2) for number in range(times - 1)]
    reports: list[Future[Report]] = []
    for attempt in attempts:
        if len(reports) >= jobs:
            reports[-jobs].result()
        reports.append(oracle.report(attempt))
    if jobs == 1 and reports:
        reports[-1].result()
    return (report.result() for report in reports)


def check_reproducible(candidate: Candidate, failure: Failure, oracle: Oracle) -> None:
    """Run `candidate` again; raise ReductionRefused unless each run fails like `failure`."""
    for number, report in enumerate(run_again(candidate, oracle), 2):
        found = report.failure
        if found is None:
            raise ReductionRefused(
                f"It fails only sometimes: {failure}, but not in try {number} of {TIMES}; "
                "make the program deterministic first."
            )
        if not failure.same(found):
            raise ReductionRefused(f"It fails differently each time: {failure}, then {found}.")


def _run_remaining_rungs(candidate: Candidate, oracle: Oracle) -> dict[str, RungOutcome]:
    """Run a candidate on its rungs, and return the outcomes by rung.

    If a rung crashes the child, the rungs after it run in a new child. A rung that ended at its
    time limit while the machine was busy runs once more, alone. Raises FullgraphError if a child
    ends outside a rung, or if it runs out of device memory.
    """
    ends: dict[str, RungOutcome] = {}
    while True:
        report = oracle.report(candidate).result()
        if report.unfinished and not candidate.alone:
            oracle.sandbox.wait_until_idle()
            candidate = replace(candidate, attempt=candidate.attempt + 1, alone=True)
            continue
        if OUT_OF_MEMORY in report.broken and oracle.sandbox.jobs > 1:
            oracle.sandbox.limit_to_one_job()  # they shared a device
            candidate = replace(candidate, attempt=candidate.attempt + 1)
            continue
        if report.broken and (OUT_OF_MEMORY in report.broken or not report.ends):
            raise FullgraphError(report.broken)
        ends = {end.rung: end for end in report.ends} | ends
        last = report.ends[-1]
        names = [rung.name for rung in candidate.rungs]
        if report.broken and last.failure is None and last.rung != names[-1]:
            raise FullgraphError(report.broken)
        if last.rung not in names[:-1] or _hangs(last) or last.unfinished:
            return ends
        left = candidate.rungs[names.index(last.rung) + 1 :]
        candidate = replace(candidate, rungs=left, repeat_eager=False)


def _hangs(end: RungOutcome) -> bool:
    return end.failure is not None and end.failure.kind is Kind.HANG


_HEALTHY = {
    None: "Nothing fails: every rung gives what eager gives.",
    Kind.BREAK: "Nothing fails: `fullgraph=True` captures the program.",
    Kind.RECOMPILE: "Nothing fails: after the second call, not every call compiles again.",
    Kind.SLOW: "Nothing fails: no rung is much slower than eager.",
}
"""What a healthy program is told, by the kind of failure that was looked for."""


def _reason_to_refuse(ends: Mapping[str, RungOutcome], wanted: Kind | None) -> str:
    """Return a sentence on why there is nothing to bisect; "" if a compiled rung fails.

    Eager fails, its results vary, or no rung is wrong. `ends` has the outcomes by rung.
    """
    eager = ends[EAGER]
    if eager.failure is not None:
        said = eager.failure.message.partition("\n")[0]
        if has_process_group() and torch.distributed.get_world_size() > 1:
            return (
                f"In eager it fails without the other ranks ({said}), whose part in collectives is "
                "made up here: nothing is known about the compiler."
            )
        return f"The program fails in eager already ({said}): no compiler is to blame."
    if eager.refused:
        return f"There is nothing to compare with: {eager.refused}."
    if any(end.failure is not None for end in ends.values()):
        return ""
    for name, end in ends.items():
        if end.unfinished:
            return f"Nothing is known to fail, but {name} is not finished: {end.unfinished}."
    closer = [name for name, end in ends.items() if end.refused]
    if closer:
        return (
            f"{', '.join(closer)} and eager differ, and {ends[closer[0]].refused}: "
            "that is no failure of the compiler."
        )
    return _HEALTHY[wanted]


def _missing_ranks_note() -> tuple[str, ...]:
    """Return the note that other ranks did not take part; () if there are none."""
    others = torch.distributed.get_world_size() - 1 if has_process_group() else 0
    if not others:
        return ()
    return (
        f"The collectives were computed without the other ranks ({others}): shapes are the real "
        "ones, sums and gathered values are made of this rank's alone.",
    )
