"""`bisect`: which stage of the compiler is wrong, and which part of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from fullgraph.compiler import groups, isolation, processes, warm
from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.ladder import Backend, Rung, ladder
from fullgraph.compiler.program import program
from fullgraph.compiler.results import Loss
from fullgraph.minifier.attempt import EAGER, Ended
from fullgraph.minifier.case import Case
from fullgraph.minifier.culprit import Culprit, culprit
from fullgraph.minifier.failure import NOT_BESIDE, Failure, Kind
from fullgraph.minifier.sandbox import SECONDS, Sandbox, Tries

TIMES = 3
"""How often a failure must come to be one."""


@dataclass(frozen=True)
class Bisection:
    """How a program goes on every rung, and where it first fails."""

    torch: str
    rungs: Mapping[str, Ended | None]
    """By name, from eager up; None for a rung that was not tried."""
    culprit: Culprit | None = None
    refused: str | None = None
    """Why there is nothing to bisect; a sentence."""
    calls: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """What is to be known of it, one sentence each."""

    @property
    def failure(self) -> Failure | None:
        """What goes wrong on the first rung that fails."""
        failures = (end.failure for end in self.rungs.values() if end is not None)
        return None if self.refused else next((f for f in failures if f is not None), None)

    @property
    def first_failing(self) -> str | None:
        return self.failure.rung if self.failure is not None else None

    def to_dict(self) -> dict[str, Any]:
        """Schema 1."""
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
            "culprit": str(self.culprit) if self.culprit else None,
            "refused": self.refused,
            "calls": self.calls,
            "seconds": round(self.seconds, 2),
            "notes": list(self.notes),
        }

    def table(self) -> list[tuple[str, str]]:
        """Each rung with how it goes, in words."""
        return [(name, _words(end)) for name, end in self.rungs.items()]

    def __str__(self) -> str:
        wide = max(map(len, self.rungs), default=0)
        lines = [f"{name:<{wide}}  {words}" for name, words in self.table()]
        if self.culprit:
            lines.append(f"culprit: {self.culprit}")
        if self.refused:
            lines.append(self.refused)
        lines += self.notes
        return "\n".join(lines)


def bisect(
    model: Callable[..., Any],
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    loss: Loss = None,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    backend: Backend = "inductor",
    tol: float | None = None,
    check_strides: bool = True,
    kind: str | None = None,
    budget: float | None = None,
    jobs: int | None = None,
    seconds: float = SECONDS,
    memory: float | None = None,
    inside: bool = True,
) -> Bisection:
    """Which rung from eager to `backend` is the first that fails, and which part of it.

    Args:
        model, inputs, kwargs: what is called, as `explain` takes them.
        loss: a callable on the output, or True for its sum: gradients are compared too.
        dynamic, mode, options, backend: as torch.compile takes them.
        tol: relative and absolute tolerance; by dtype if not given. A result that is closer to
            float64 than eager's is no failure.
        check_strides: whether other strides or aliasing of an output are a failure.
        kind: "break", "recompile" or "slow": look for that instead of anything wrong.
        budget: seconds for looking inside the rung.
        jobs: how many tries are made at a time; as many as there are cores.
        seconds: wall time for each try; more is a hang.
        memory: GiB for each try; half of what is free if not given.
        inside: whether to look for the part of the rung too.

    Every try runs in a forked child; nothing here changes. Where a process group is live, the child
    computes its collectives without the other ranks, see `compiler.groups`. Raises FullgraphError
    for arguments that cannot be called, and where a fork is not safe; a model that fails in eager,
    not at all or only sometimes gives a `Bisection` that is `refused`.
    """
    case, rungs = suspect(
        model,
        inputs,
        kwargs=kwargs,
        loss=loss,
        dynamic=dynamic,
        mode=mode,
        options=options,
        backend=backend,
        tol=tol,
        check_strides=check_strides,
        kind=kind,
        command="bisect",
    )
    start = time.monotonic()
    with workshop(rungs, seconds=seconds, memory=memory, jobs=jobs) as sandbox:
        found = climb(case, rungs, sandbox)
        failure = found.failure
        if failure is not None and inside and not _over(budget, start):
            part = culprit(case, rung_of(rungs, failure), failure, sandbox)
            found = replace(found, culprit=part)
    return replace(found, calls=sandbox.calls, seconds=time.monotonic() - start)


def suspect(
    model: Callable[..., Any],
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None,
    loss: Loss,
    dynamic: bool | None,
    mode: str | None,
    options: Mapping[str, Any] | None,
    backend: Backend,
    tol: float | None,
    check_strides: bool,
    kind: str | None,
    command: str,
) -> tuple[Case, tuple[Rung, ...]]:
    """The case that the arguments of `bisect` and `minify` describe, and its ladder."""
    subject = program(
        model,
        inputs,
        kwargs=kwargs,
        loss=loss,
        backend=backend,
        mode=mode,
        dynamic=dynamic,
        options=options,
        command=command,
    )
    wanted = _kind(kind)
    call = subject.calls[0]
    where, why = isolation.choose((subject.target, call.args, call.kwargs), alone=True)
    if where != "fork":
        raise FullgraphError(
            f"{command} tries every candidate in a forked process, and {why}: run it in a fresh "
            "process that has not touched the device, or move the model to CPU."
        )
    case = Case(
        subject.target,
        call.args,
        call.kwargs,
        loss=loss,
        dynamic=dynamic,
        tol=tol,
        strides=check_strides,
        calls=4 if wanted is Kind.RECOMPILE else 1,
        wanted=wanted,
    )
    rungs = ladder(backend, mode=mode, options=options)
    if wanted is Kind.BREAK:
        rungs = (rungs[0], replace(rungs[1], fullgraph=True))
    elif wanted is Kind.RECOMPILE:
        rungs = rungs[:2]
    return case, rungs


@contextmanager
def workshop(
    rungs: Sequence[Rung],
    *,
    seconds: float = SECONDS,
    memory: float | None = None,
    jobs: int | None = None,
) -> Iterator[Sandbox]:
    """A sandbox whose children find the compiler loaded. Raises FullgraphError where Inductor is
    asked for and cannot build anything."""
    warm.up()
    cache = None
    if any(rung.backend == "inductor" for rung in rungs):
        try:
            cache = warm.inductor()
        except Exception as error:
            said = str(error).strip().partition("\n")[0]
            raise FullgraphError(
                f"Inductor cannot compile even x + 1 on this machine "
                f"({type(error).__name__}: {said}): mend its C++ compiler first."
            ) from error
    most = int(memory * 2**30) if memory is not None else processes.free_memory() // 2
    sandbox = Sandbox(cache, seconds=seconds, memory=most, jobs=jobs or os.cpu_count() or 1)
    try:
        yield sandbox
    finally:
        sandbox.stop()


def climb(case: Case, rungs: Sequence[Rung], sandbox: Tries) -> Bisection:
    """Every rung's outcome, and whether the first failure comes each time."""
    ends = _all(case, rungs, sandbox)
    told = {rung.name: ends.get(rung.name) for rung in rungs}
    found = Bisection(torch.__version__, told, notes=_ranks())
    refused = _refusal(ends)
    failure = found.failure
    if failure is not None and not refused:
        refused = _unsteady(case, rung_of(rungs, failure), failure, sandbox)
    return replace(found, refused=refused or None)


def rung_of(rungs: Sequence[Rung], failure: Failure) -> Rung:
    return next(rung for rung in rungs if rung.name == failure.rung)


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


def _unsteady(case: Case, rung: Rung, failure: Failure, sandbox: Tries) -> str:
    """Why a failure cannot be reduced: it does not come each time, or not the same."""
    beside = failure.kind not in NOT_BESIDE
    reports = sandbox.again(case, [rung], TIMES - 1, beside=beside)
    for number, report in enumerate(reports, 2):
        again = report.failure
        if again is None:
            return (
                f"It fails only sometimes: {failure}, but not in try {number} of {TIMES}; "
                "make the program deterministic first."
            )
        if not failure.same(again):
            return f"It fails differently each time: {failure}, then {again}."
    return ""


def _ranks() -> tuple[str, ...]:
    """A note where the other ranks were missing."""
    others = torch.distributed.get_world_size() - 1 if groups.live() else 0
    if not others:
        return ()
    return (
        f"The collectives were computed without the other ranks ({others}): shapes are the real "
        "ones, sums and gathered values are made of this rank's alone.",
    )


def _over(budget: float | None, start: float) -> bool:
    return budget is not None and time.monotonic() - start > budget


def _outcome(end: Ended | None) -> str | None:
    if end is None:
        return None
    return str(end.failure.kind) if end.failure is not None else "ok"


def _words(end: Ended | None) -> str:
    if end is None:
        return "not tried"
    if end.failure is not None:
        return f"{end.failure.kind}: {end.failure.message.partition(os.linesep)[0]}"
    return f"ok ({end.refused})" if end.refused else "ok"


def _kind(name: str | None) -> Kind | None:
    if name is None:
        return None
    looked_for = (Kind.BREAK, Kind.RECOMPILE, Kind.SLOW)
    if name not in looked_for:
        raise FullgraphError(
            f"kind must be one of {', '.join(looked_for)}, not {name!r}: without it anything that "
            "is wrong is looked for."
        )
    return Kind(name)
