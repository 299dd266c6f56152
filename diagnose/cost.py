"""Eager and compiled calls timed side by side, in this process."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.private import silence_torch_logs
from fullgraph.compiler.program import Program
from fullgraph.diagnose.explanation_data import Measurement

REPEATS = 20
SECONDS = 5.0
"""Limits of timing: steps of eager and of compiled each (at least three), and seconds in all."""


@dataclass(frozen=True)
class TimingOutcome:
    """Times of a program, or the reason why it could not be timed."""

    measurement: Measurement | None
    error: str | None = None
    """Why the program could not be timed; None if it was."""
    unrestored: tuple[str, ...] = ()


def time_program(program: Program) -> TimingOutcome:
    """Time `program` in this process, and restore its state afterwards."""
    outcome = run_isolated(
        lambda emit: measure(program), objects=program.objects(), where="process"
    )
    error = outcome.error and f"{outcome.error.type}: {outcome.error.message}"
    return TimingOutcome(outcome.value, error or None, outcome.unrestored)


def measure(program: Program) -> Measurement:
    """Time one step (all calls with their backward) in eager and compiled, alternating.

    Times are medians in seconds. `compile` is how much longer the first compiled step takes than
    the median one. Peak memory is CUDA's, in bytes; None on CPU.
    """
    with silence_torch_logs():
        return _measure_program(program)


def _measure_program(program: Program) -> Measurement:
    """Compile the program, then time eager and compiled steps in turn."""
    compiled = program.compiled(isolated=True)
    eager_step = _step_of(program, program.target)
    compiled_step = _step_of(program, compiled)
    eager_step()  # fills lazy caches
    first = _seconds_of(compiled_step)
    _seconds_of(compiled_step)  # a second compile: sizes that vary become dynamic
    eager_times: list[float] = []
    compiled_times: list[float] = []
    start = time.perf_counter()
    while len(eager_times) < REPEATS and (
        len(eager_times) < 3 or time.perf_counter() - start < SECONDS
    ):
        eager_times.append(_seconds_of(eager_step))
        compiled_times.append(_seconds_of(compiled_step))
    eager_time, compiled_time = statistics.median(eager_times), statistics.median(compiled_times)
    gain = eager_time - compiled_time
    cost = max(first - compiled_time, 0.0)
    return Measurement(
        eager=eager_time,
        compiled=compiled_time,
        compile=cost,
        repeats=len(eager_times),
        peak_eager=_peak_memory(eager_step),
        peak_compiled=_peak_memory(compiled_step),
        pays_after=math.ceil(cost / gain) if gain > 0 else None,
    )


def _step_of(program: Program, function: Callable[..., object]) -> Callable[[], None]:
    return lambda: program.run(function)


def _seconds_of(step: Callable[[], None]) -> float:
    """Return the wall time of a step, device work included."""
    _wait_for_device()
    start = time.perf_counter()
    step()
    _wait_for_device()
    return time.perf_counter() - start


def _wait_for_device() -> None:
    """Wait for all CUDA kernels."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _peak_memory(step: Callable[[], None]) -> int | None:
    """Return the peak CUDA memory of a step in bytes; None without CUDA."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return None
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.max_memory_allocated()
