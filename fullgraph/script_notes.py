"""Notes of a report on a script: what each compiled function did, and what ran outside them."""

from __future__ import annotations

import linecache
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fullgraph.compiler.events import Graph, Recompile, Recording, Timing
from fullgraph.compiler.private import CompiledCalls, CompiledFunction, inductor_cache_dir
from fullgraph.compiler.sources import Owner, owner_of
from fullgraph.diagnose.explanation_data import ExplanationData, Note

PERIOD = 0.005
"""Seconds between two samples of the running line."""
_ENOUGH = 20
"""Smallest number of samples for which the report gives shares of lines."""
_LINES = 3
"""Number of lines that the report names."""


class LineSampler:
    """Thread that samples the running line of user code while no compiled function runs."""

    def __init__(self, seen: CompiledCalls) -> None:
        self.lines: Counter[tuple[str, int]] = Counter()
        self._seen, self._main = seen, threading.get_ident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> LineSampler:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        """Count the innermost line of user code every `PERIOD`, outside compiled functions."""
        while not self._done.wait(PERIOD):
            frame = sys._current_frames().get(self._main)
            if self._seen.started is None or self._seen.depth or frame is None:
                continue
            while frame is not None and not _is_users(frame.f_code.co_filename):
                frame = frame.f_back
            if frame is not None:
                self.lines[frame.f_code.co_filename, frame.f_lineno] += 1


def _is_users(file: str) -> bool:
    """Return whether the user wrote a file: no library has it, and Inductor did not generate it."""
    return owner_of(file) is Owner.USER and not file.startswith(inductor_cache_dir() or "\0")


def describe_compiled(seen: CompiledCalls, recording: Recording) -> Iterator[Note]:
    """Yield a note on each compiled function: calls, graphs, recompiles and compile time."""
    groups: dict[tuple[str, str, int], list[CompiledFunction]] = {}
    for function in seen.functions:
        groups.setdefault((function.name, function.file, function.line), []).append(function)
    for (name, file, line), functions in groups.items():
        place = f" ({Path(file).name}:{line})" if file else ""
        calls = sum(function.calls for function in functions)
        if not calls:
            yield Note("compiled", f"`{name}`{place} was compiled, and never called.")
            continue
        ranges = [span for function in functions for span in function.events]
        events = [event for first, end in ranges for event in recording.events[first:end]]
        ids = {event.compile_id for event in events if isinstance(event, Graph | Timing)}
        timings = [e for e in recording.events if isinstance(e, Timing) and e.compile_id in ids]
        parts = [
            f"{_count(calls, 'call')} in {_seconds(sum(f.seconds for f in functions))}",
            f"{_count(sum(isinstance(event, Graph) for event in events), 'graph')} compiled",
            _count(sum(isinstance(event, Recompile) for event in events), "recompile"),
            f"{_seconds(sum(timing.total or 0.0 for timing in timings))} of compile time",
        ]
        yield Note("compiled", f"`{name}`{place}: {', '.join(parts)}.")


def describe_outside(seen: CompiledCalls, sampler: LineSampler) -> Iterator[Note]:
    """Yield a note on the time that passed outside compiled functions, and at which lines.

    Nothing if no compiled function was called.
    """
    if seen.started is None:
        return
    whole = time.perf_counter() - seen.started
    outside = max(0.0, whole - seen.seconds)
    message = (
        f"Since the first call of a compiled function, {_seconds(outside)} of {_seconds(whole)} "
        "passed outside of compiled functions"
    )
    samples = sampler.lines.total()
    if samples < _ENOUGH:
        yield Note("eager", f"{message}.")
        return
    shares = [
        f"{Path(file).name}:{line} `{linecache.getline(file, line).strip()}` "
        f"({number / samples:.0%})"
        for (file, line), number in sampler.lines.most_common(_LINES)
        if number / samples >= 0.01
    ]
    yield Note("eager", f"{message}, most at {', '.join(shares)}.")


def verdict_of(explanation: ExplanationData, seen: CompiledCalls, recording: Recording) -> str:
    """Return the verdict on a script: the explanation's, or a weaker one if no graph broke.

    It must not claim more than the functions that were compiled and called show.
    """
    target = explanation.target
    end = f" · torch {recording.torch.partition('+')[0]}"
    if not seen.functions and not recording.graphs and not recording.breaks:
        return f"{target} compiles nothing: it does not apply torch.compile{end}"
    called = [function for function in seen.functions if function.calls]
    if seen.functions and not called:
        return f"{target} compiles nothing: it never calls what torch.compile returns{end}"
    if recording.breaks or recording.failures or not called:
        return explanation.verdict
    names = dict.fromkeys(f"{function.name}" for function in called)
    parts = [_count(len(explanation.graphs), "graph"), "no graph break"]
    if recording.recompiles:
        parts.append(_count(len(recording.recompiles), "recompile"))
    return f"{target} compiles {', '.join(names)}: {', '.join(parts)}{end}"


def _seconds(seconds: float) -> str:
    """Return a time as "12 ms" or "3.4 s"."""
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1: "2 graphs"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
