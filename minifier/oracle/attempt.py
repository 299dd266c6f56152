"""Run a case on each rung, and compare the results with eager's, in this process.

This is meant for a forked child. The state of the case is restored between the runs, and outcomes
are sent as picklable messages.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from fullgraph.compiler.float64_copies import to_float64
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
from fullgraph.compiler.numerics import Tolerance, find_mismatch
from fullgraph.compiler.private import (
    compile_uncached,
    compiled_graphs,
    forbid_recompiles,
    is_dynamo_error,
    silence_torch_logs,
    unlimited_recompiles,
)
from fullgraph.compiler.results import RunResults, run_and_record, seed_generators
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import (
    SLOW_FACTOR,
    SLOW_OVERHEAD,
    STORM,
    Failure,
    Kind,
    failure_of_difference,
    failure_of_exception,
)

EAGER = "eager"


@dataclass(frozen=True)
class RungStarted:
    """Message sent before a rung runs; if no outcome follows, the rung crashed or hung."""

    rung: str


@dataclass(frozen=True)
class RungOutcome:
    """Outcome of a program on one rung: the failure, if any, and the time."""

    rung: str
    failure: Failure | None
    """None if the rung passes."""
    seconds: float
    """Wall time."""
    refused: str = ""
    """Clause on why a difference from eager is no failure, or eager no reference; "" otherwise."""
    unfinished: str = ""
    """Clause on why the rung has no outcome, a limit that says nothing about it; "" if it has."""


def attempt(
    case: Case,
    rungs: Sequence[Rung],
    emit: Callable[[object], None],
    *,
    stop: bool = True,
    repeat_eager: bool = False,
    eager_limit: float | None = None,
) -> None:
    """Run `case` in eager and then on each rung; `emit` a message before and after each.

    It ends at the first failure unless `stop` is False. With `repeat_eager`, eager runs twice; if
    the results differ, no rung runs, and eager's message says so. Eager fails if it takes more than
    `eager_limit` seconds; None is no limit.
    """
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
    """Raise TimeoutError in the block after `seconds`; None is no limit.

    It interrupts Python code, such as a loop that an edit has made endless. Works only in the main
    thread.
    """
    if seconds is None:
        yield
        return

    def end(*_: object) -> None:
        """Raise TimeoutError: the handler of the alarm."""
        raise TimeoutError(f"eager did not end within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _eager_tolerance(case: Case) -> Tolerance | None:
    """Return the tolerance for comparing two eager runs.

    It is 0 on CPU. On other devices, whose sums vary from run to run, it is the user's tolerance,
    or None for the default by dtype.
    """
    return case.tolerance if devices_of(case.objects) - {"cpu", "meta"} else Tolerance(0.0, 0.0)


def _run_eager(case: Case, before: Snapshot) -> tuple[RunResults, bool]:
    """Run the case in eager; return the results, and whether random numbers were drawn.

    At the end, restores the snapshot `before`, taken before the run.
    """
    seed_generators(0)
    states = random_states()
    found = _run(case, case.target)
    if case.loss and not found.gradients:
        raise RuntimeError("nothing that goes in asks for a gradient of what comes out")
    drew = has_drawn_random_numbers(states)
    before.restore()
    return found, drew


def _run(case: Case, function: Callable[..., object]) -> RunResults:
    """Make the earlier calls, then `case.calls` with its inputs; return the results of the last."""
    for args, kwargs in case.earlier:
        run_and_record(function, args, kwargs, loss=case.loss, module=case.module)
    for _ in range(case.calls):
        found = run_and_record(function, case.args, case.kwargs, loss=case.loss, module=case.module)
    synchronize_devices()
    return found


def _check_rung(
    case: Case, rung: Rung, before: Snapshot, expected: RunResults
) -> tuple[Failure | None, str]:
    """Run the case compiled for `rung`; return (failure, ""), or (None, clause) if it passes.

    `expected` are the results of eager. The clause says why a difference from them is no failure;
    "" if there is no difference. At the end, restores the snapshot `before`.
    """
    torch.compiler.reset()
    try:
        compiled = case.compiled(rung)
        if case.wanted is Kind.RECOMPILE:
            _raise_on_storm(case, compiled)
            return None, ""
        got = _run(case, compiled)
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
        """Return the float64 results; note that the comparison needed them."""
        asked.append("the compiled result is closer to float64 than eager")
        return _run_in_float64(case)

    found = find_mismatch(
        expected, got, tolerance=case.tolerance, strides=case.strides, float64_results=judge
    )
    if found is None:
        return None, asked[0] if asked else ""
    return failure_of_difference(rung.name, found), ""


def _raise_on_storm(case: Case, compiled: Callable[..., object]) -> None:
    """Call a compiled function `STORM` times, and once more with recompiles as errors.

    Returns before that if one of the calls after the second compiles nothing: torch compiles some
    programs twice, with sizes that are dynamic the second time.
    """
    with unlimited_recompiles():
        for number in range(STORM):
            before = compiled_graphs()
            _run(case, compiled)
            if number >= 2 and compiled_graphs() == before:
                return
        with forbid_recompiles(True):
            _run(case, compiled)


def _failure_of_error(case: Case, rung: Rung, error: Exception) -> Failure:
    """Return the failure of a rung that raised `error`.

    It is a "break" or "recompile" if the case looks for that and Dynamo raised the error.
    """
    failure = failure_of_exception(rung.name, error)
    if case.wanted in (Kind.BREAK, Kind.RECOMPILE) and is_dynamo_error(error):
        signature = failure.signature if case.wanted is Kind.BREAK else ()
        return replace(failure, kind=case.wanted, signature=signature)
    return failure


def _run_in_float64(case: Case) -> RunResults | None:
    """Return the results of the case in float64; None if it fails in float64."""
    try:
        calls = (*case.earlier, (case.args, case.kwargs))
        target, wide, _ = to_float64(case.target, calls, {})
        *earlier, (args, kwargs) = wide
        module = target if isinstance(target, torch.nn.Module) else None
        for before in earlier:
            run_and_record(target, *before, loss=case.loss, module=module)
        for _ in range(case.calls):
            found = run_and_record(target, args, kwargs, loss=case.loss, module=module)
    except Exception:
        return None
    return found


def slow(case: Case, rung: Rung) -> Failure | None:
    """Return a failure if the compiled program takes over 1.5 times as long as eager, else None."""
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
    """Return the wall time, in seconds, of one call of `function` with the case's inputs."""
    synchronize_devices()
    start = time.perf_counter()
    function(*case.args, **case.kwargs)
    synchronize_devices()
    return time.perf_counter() - start
