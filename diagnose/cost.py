"""What compiling costs and what it brings, timed side by side in this process."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import torch

from fullgraph.compiler.private import silence_torch_logs
from fullgraph.compiler.program import Program
from fullgraph.diagnose.explanation import Measurement

REPEATS = 20
SECONDS = 5.0
"""How long each side is repeated at most; never fewer than three calls."""


def measure(program: Program) -> Measurement:
    """Time one step (all calls, with their backward) eager and compiled, alternating.

    Seconds are medians; `compile` is what the first compiled step took beyond a later one. Peak
    memory is CUDA's, in bytes; on CPU it is not known.
    """
    with silence_torch_logs():
        return _measure(program)


def _measure(program: Program) -> Measurement:
    compiled = program.compiled(isolated=True)
    eager_step = _step(program, program.target)
    compiled_step = _step(program, compiled)
    eager_step()  # lazy caches of the user's
    first = _timed(compiled_step)
    _timed(compiled_step)  # what becomes dynamic compiles a second time
    eager: list[float] = []
    fast: list[float] = []
    start = time.perf_counter()
    while len(eager) < REPEATS and (len(eager) < 3 or time.perf_counter() - start < SECONDS):
        eager.append(_timed(eager_step))
        fast.append(_timed(compiled_step))
    one, other = statistics.median(eager), statistics.median(fast)
    cost = max(first - other, 0.0)
    return Measurement(
        eager=one,
        compiled=other,
        compile=cost,
        repeats=len(eager),
        peak_eager=_peak(eager_step),
        peak_compiled=_peak(compiled_step),
        pays_after=math.ceil(cost / (one - other)) if one > other else None,
    )


def _step(program: Program, function: Callable[..., object]) -> Callable[[], None]:
    return lambda: program.run(function)


def _timed(step: Callable[[], None]) -> float:
    _synchronize()
    start = time.perf_counter()
    step()
    _synchronize()
    return time.perf_counter() - start


def _synchronize() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _peak(step: Callable[[], None]) -> int | None:
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return None
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.max_memory_allocated()
