"""Compiling a case rung by rung and comparing each with eager, in the process this runs in.

It is meant for a forked child: the state of the case is put back between the runs, and what went
wrong is told as plain data.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from fullgraph.compiler.isolation import (
    Snapshot,
    devices_are_usable,
    devices_of,
    has_drawn_random_numbers,
    random_states,
    snapshot,
    synchronize_devices,
)
from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.numerics import Tolerance, find_mismatch, to_float64
from fullgraph.compiler.private import (
    compile_uncached,
    forbid_recompiles,
    is_dynamo_error,
    silence_torch_logs,
)
from fullgraph.compiler.results import RunResults, run_and_record, seed_generators
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import (
    SLOW_FACTOR,
    SLOW_OVERHEAD,
    Failure,
    Kind,
    failure_of_difference,
    failure_of_exception,
)

EAGER = "eager"


@dataclass(frozen=True)
class RungStarted:
    """Message sent before a rung runs; without an outcome after it, the rung crashed or hung."""

    rung: str


@dataclass(frozen=True)
class RungOutcome:
    """Outcome of a rung."""

    rung: str
    failure: Failure | None
    seconds: float
    refused: str = ""
    """A clause on why this is not a failure though it looks like one, or not a case at all."""


def attempt(
    case: Case,
    rungs: Sequence[Rung],
    emit: Callable[[object], None],
    *,
    stop: bool = True,
    repeat_eager: bool = False,
    eager_limit: float | None = None,
) -> None:
    """Run `case` in eager and then on each rung; `emit` each outcome.

    Ends at the first failure unless `stop` is False. With `repeat_eager` eager runs twice, and a
    difference between the two is a refusal. Eager fails after `eager_limit` seconds."""
    before = snapshot(case.objects)
    emit(RungStarted(EAGER))
    start = time.monotonic()
    try:
        with time_limit(eager_limit):
            expected, random = _run_eager(case, before)
        again = _run_eager(case, before)[0] if repeat_eager else None
    except Exception as error:
        emit(RungOutcome(EAGER, failure_of_exception(EAGER, error), time.monotonic() - start))
        return
    difference = again and find_mismatch(
        expected, again, tolerance=_eager_tolerance(case), strides=False
    )
    refused = f"eager itself gives something else each time ({difference})" if difference else ""
    emit(RungOutcome(EAGER, None, time.monotonic() - start, refused))
    if refused:
        return
    for rung in rungs:
        emit(RungStarted(rung.name))
        start = time.monotonic()
        with silence_torch_logs(), compile_uncached(random):  # each time: restoring ends them
            failure, note = _check_rung(case, rung, before, expected)
        emit(RungOutcome(rung.name, failure, time.monotonic() - start, note))
        if failure is not None and (stop or not devices_are_usable()):
            return


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError in the block after some seconds, in the main thread of a child.

    An edit can turn a loop into an endless one, which Python code is told to leave."""
    if seconds is None:
        yield
        return

    def end(*_: object) -> None:
        raise TimeoutError(f"eager did not end within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _eager_tolerance(case: Case) -> Tolerance | None:
    """Return the tolerance between two eager runs of a device whose reductions vary."""
    return case.tolerance if devices_of(case.objects) - {"cpu", "meta"} else Tolerance(0.0, 0.0)


def _run_eager(case: Case, before: Snapshot) -> tuple[RunResults, bool]:
    """Return eager's results, and whether it drew random numbers."""
    seed_generators(0)
    states = random_states()
    found = _run(case, case.target)
    if case.loss and not found.gradients:
        raise RuntimeError("nothing that goes in asks for a gradient of what comes out")
    drew = has_drawn_random_numbers(states)
    before.restore()
    return found, drew


def _run(case: Case, function: Callable[..., object]) -> RunResults:
    """Make the calls of the case and return the results of the last one."""
    for _ in range(case.calls):
        found = run_and_record(function, case.args, case.kwargs, loss=case.loss, module=case.module)
    synchronize_devices()
    return found


def _check_rung(
    case: Case, rung: Rung, before: Snapshot, expected: RunResults
) -> tuple[Failure | None, str]:
    """Run a rung and return its failure; without one, why an apparent one is ignored."""
    torch.compiler.reset()
    try:
        with forbid_recompiles(case.wanted is Kind.RECOMPILE):
            got = _run(case, case.compiled(rung))
        too_slow = slow(case, rung) if case.wanted is Kind.SLOW else None
    except Exception as error:
        if devices_are_usable():
            before.restore()
        return _failure_of_error(case, rung, error), ""
    before.restore()
    if case.wanted is not None:
        return too_slow, ""
    asked: list[str] = []

    def judge() -> RunResults | None:
        """Return the float64 results, and note that they were needed."""
        asked.append("the compiled result is closer to float64 than eager")
        return _run_in_float64(case)

    found = find_mismatch(
        expected, got, tolerance=case.tolerance, strides=case.strides, float64_results=judge
    )
    if found is None:
        return None, asked[0] if asked else ""
    return failure_of_difference(rung.name, found), ""


def _failure_of_error(case: Case, rung: Rung, error: Exception) -> Failure:
    """Return the failure of a rung that raised `error`."""
    failure = failure_of_exception(rung.name, error)
    if case.wanted in (Kind.BREAK, Kind.RECOMPILE) and is_dynamo_error(error):
        signature = failure.signature if case.wanted is Kind.BREAK else ()
        return replace(failure, kind=case.wanted, signature=signature)
    return failure


def _run_in_float64(case: Case) -> RunResults | None:
    """Run in float64 and return the results; None if that fails."""
    try:
        target, args, kwargs = to_float64(case.target, case.args, case.kwargs)
        module = target if isinstance(target, torch.nn.Module) else None
        for _ in range(case.calls):
            found = run_and_record(target, args, kwargs, loss=case.loss, module=module)
    except Exception:
        return None
    return found


def slow(case: Case, rung: Rung) -> Failure | None:
    """Return a failure if the compiled program is over `SLOW_FACTOR` times as slow as eager."""
    compiled = case.compiled(rung)
    for function in (case.target, compiled) * 2:
        function(*case.args, **case.kwargs)
    pairs = [
        (_measure_seconds(case, case.target), _measure_seconds(case, compiled)) for _ in range(5)
    ]
    eager, took = map(min, zip(*pairs, strict=True))
    if took <= SLOW_FACTOR * eager + SLOW_OVERHEAD:
        return None
    message = f"{took / eager:.1f} times as slow as eager ({took:.2g} s)"
    return Failure(rung.name, Kind.SLOW, ("slow",), message)


def _measure_seconds(case: Case, function: Callable[..., object]) -> float:
    """Return the wall time of one call, device work included."""
    synchronize_devices()
    start = time.perf_counter()
    function(*case.args, **case.kwargs)
    synchronize_devices()
    return time.perf_counter() - start
