"""One compilation of a program under the recorder, as a job to run in isolation."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from fullgraph.compiler.events import Event, Position, Recording
from fullgraph.compiler.isolation import JobOutcome
from fullgraph.compiler.private import capture_scalars_and_shapes, silence_torch_logs
from fullgraph.compiler.program import Program
from fullgraph.compiler.recording import record
from fullgraph.compiler.sources import is_user_code


@dataclass(frozen=True)
class Raised:
    """An exception that came out of the user's call."""

    type: str
    message: str
    position: Position | None
    """The innermost line of the user's in the traceback."""
    traceback: str


@dataclass(frozen=True)
class Trace:
    """What one way of compiling a program told."""

    recording: Recording
    first_call: int
    """The number of events of the first call."""
    raised: Raised | None = None
    counters: tuple[str, ...] = ()
    """Python numbers on the module that the calls changed: "layers.0.steps"."""
    crash: str | None = None
    """The signal or the time limit that ended the process, if one did."""
    output: str = ""


def trace(
    program: Program, *, fullgraph: bool = False, capture: bool = False, in_process: bool = False
) -> Callable[[Callable[[object], None]], Trace]:
    """A job that compiles and calls `program`, and emits every event at once.

    `capture` traces by default what `fullgraph=True` would trace, which lists its causes.
    """

    def job(emit: Callable[[object], None]) -> Trace:
        done = []
        raised = None
        before = numbers(program.target)
        captures = capture_scalars_and_shapes() if capture else nullcontext()
        with silence_torch_logs(), captures, record(program.target, emit) as recorder:
            try:
                compiled = program.compiled(fullgraph=fullgraph, isolated=in_process)
                program.run(compiled, lambda _: done.append(len(recorder.recording.events)))
            except Exception as error:
                raised = raised_by(error)
        recording = recorder.recording
        first = done[0] if done else len(recording.events)
        after = numbers(program.target)
        changed = tuple(name for name, value in after.items() if before.get(name, value) != value)
        return Trace(recording, first, raised, changed)

    return job


def traced(outcome: JobOutcome[Trace]) -> Trace:
    """The trace an isolated job made: what was heard until then, where it did not end well."""
    if outcome.value is not None:
        value = outcome.value
        return Trace(
            value.recording, value.first_call, value.raised, value.counters, None, outcome.output
        )
    events = tuple(m for m in outcome.messages if isinstance(m, Event))
    crash = outcome.signal or outcome.status
    if outcome.error is not None:
        crash = f"{outcome.error.type}: {outcome.error.message}"
    recording = Recording(torch.__version__, events)
    return Trace(recording, len(events), None, (), crash, outcome.output)


def raised_by(error: BaseException) -> Raised:
    """`error` as plain data."""
    steps = [s for s in traceback.extract_tb(error.__traceback__) if is_user_code(s.filename)]
    position = None
    if steps:
        s = steps[-1]
        position = Position(s.filename, s.lineno or 0, s.colno, s.end_lineno, s.end_colno, s.name)
    inner = getattr(error, "inner_exception", None)
    name = type(error).__name__ + (f": {type(inner).__name__}" if inner is not None else "")
    lines = "".join(traceback.format_exception(error))
    return Raised(name, _first_paragraph(str(error)), position, lines)


def numbers(target: Any) -> dict[str, object]:
    """Python numbers kept on a module and its submodules, by their dotted names."""
    if not isinstance(target, torch.nn.Module):
        return {}
    return {
        f"{path}.{name}".lstrip("."): value
        for path, module in target.named_modules()
        for name, value in vars(module).items()
        if type(value) in (int, float)
    }


def _first_paragraph(message: str) -> str:
    return re.split(r"\n\s*\n|\nSet TORCH|\nfrom user code", message.strip())[0].strip()
