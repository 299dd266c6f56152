"""One compilation of a program under the recorder, run in isolation."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from fullgraph.compiler.events import Event, Position, Recording
from fullgraph.compiler.isolation import (
    Emit,
    JobOutcome,
    JobProcess,
    choose_process,
    run_isolated,
    run_isolated_together,
)
from fullgraph.compiler.private import capture_scalars_and_shapes, silence_torch_logs
from fullgraph.compiler.program import Program
from fullgraph.compiler.recording import record
from fullgraph.compiler.sources import is_user_code

T = TypeVar("T")
IsolatedJob = Callable[[Emit, bool], T]
"""Called with a function that emits messages, and whether it runs in the user's process."""


TIMEOUT = "timeout"
"""Value of `Trace.crash` if the time limit ended the trace."""


@dataclass(frozen=True)
class RaisedError:
    """An exception that the user's call raised."""

    type: str
    message: str
    position: Position | None
    """The innermost line of user code in the traceback."""
    traceback: str


@dataclass(frozen=True)
class Trace:
    """Recording of one compilation of a program and its calls."""

    recording: Recording
    first_call: int
    """Number of events that were recorded up to the end of the first call."""
    raised: RaisedError | None = None
    counters: tuple[str, ...] = ()
    """Python numbers of the module that the calls changed: "layers.0.steps"."""
    crash: str | None = None
    """What ended the process early: a signal, `TIMEOUT` or an error."""
    output: str = ""
    unrestored: tuple[str, ...] = ()
    """What could not be restored afterwards, one sentence each."""

    @property
    def first_recording(self) -> Recording:
        """The events of the first call."""
        return Recording("", tuple(self.recording.events[: self.first_call]))


def trace_program(
    program: Program, seconds: float | None = None, *, operators: bool = False
) -> Trace:
    """Compile and call `program` in default mode, in isolation; return what was recorded.

    If the process ends early, or after `seconds`, the trace holds the events received until then.
    With `operators`, the graphs before and after a break are recorded with their operators.
    """
    return trace_of(isolate(program, make_trace_job(program, operators=operators), seconds))


def make_trace_job(
    program: Program, *, fullgraph: bool = False, capture: bool = False, operators: bool = False
) -> IsolatedJob[Trace]:
    """Return the job that compiles and calls the program and records it.

    With `fullgraph`, it compiles with `fullgraph=True`. With `capture`, it records in default mode
    the graph breaks that `fullgraph=True` would hit. With `operators`, it also records the
    operators of the graphs before and after a break.
    """
    return lambda emit, in_process: trace_here(
        program,
        emit,
        fullgraph=fullgraph,
        capture=capture,
        operators=operators,
        in_process=in_process,
    )


def trace_of(outcome: JobOutcome[object]) -> Trace:
    """Return the trace that a job returned; if it ended early, the events until then as a trace."""
    if isinstance(outcome.value, Trace):
        return replace(outcome.value, output=outcome.output, unrestored=outcome.unrestored)
    events = tuple(message for message in outcome.messages if isinstance(message, Event))
    return Trace(
        Recording(torch.__version__, events),
        len(events),
        crash=describe_end(outcome),
        output=outcome.output,
        unrestored=outcome.unrestored,
    )


def isolate(program: Program, job: IsolatedJob[T], seconds: float | None = None) -> JobOutcome[T]:
    """Run `job` so that nothing it changes remains: in a forked child where a fork is safe.

    It is called as `job(emit, in_process)`: it passes its events to `emit`, and `in_process` says
    whether it runs in the user's process. It is stopped after `seconds`; None means no limit.
    """
    objects = program.objects()
    process, _ = choose_process(objects)
    run = _bind_process(job, process)
    return run_isolated(run, objects=objects, seconds=seconds, where=process)


def isolate_together(
    program: Program, jobs: Sequence[IsolatedJob[object]], seconds: float | None = None
) -> list[JobOutcome[object]]:
    """Run each job so that nothing it changes remains; in parallel children if a fork is safe.

    Each job is stopped after `seconds`; None means no limit.
    """
    objects = program.objects()
    process, _ = choose_process(objects)
    runs = [_bind_process(job, process) for job in jobs]
    return run_isolated_together(runs, objects=objects, where=process, seconds=seconds)


def _bind_process(job: IsolatedJob[T], process: JobProcess) -> Callable[[Emit], T]:
    """Return `job` as a function of its first argument alone, the function that gets events.

    The second argument is fixed: whether `process` is the user's own.
    """
    return lambda emit: job(emit, process == "process")


def describe_end(outcome: JobOutcome[object]) -> str:
    """Return why a job returned no value: an error, a signal or a limit."""
    if outcome.error is not None:
        return f"{outcome.error.type}: {outcome.error.message}"
    return outcome.signal or outcome.status


def trace_here(
    program: Program,
    emit: Emit,
    *,
    fullgraph: bool = False,
    capture: bool = False,
    operators: bool = False,
    in_process: bool = False,
) -> Trace:
    """Compile and call `program` in this process; pass each event to `emit` as it happens.

    `fullgraph` compiles with `fullgraph=True`; `capture` records in default mode the breaks that
    this would hit; `operators` records the operators of the graphs at a break. `in_process` says
    whether this is the user's process.
    """
    calls: list[int] = []
    raised = None
    before = _module_numbers(program.target)
    captures = capture_scalars_and_shapes() if capture else nullcontext()
    recording_events = record(program.target, emit, operators=operators)
    with silence_torch_logs(), captures, recording_events as recorder:
        try:
            compiled = program.compiled(fullgraph=fullgraph, isolated=in_process)
            program.run(compiled, lambda _: calls.append(len(recorder.recording.events)))
        except Exception as error:
            raised = _describe_error(error)
    recording = recorder.recording
    after = _module_numbers(program.target)
    counters = tuple(name for name, value in after.items() if before.get(name, value) != value)
    first = program.eager_calls
    end = calls[first] if len(calls) > first else len(recording.events)
    return Trace(recording, end, raised, counters)


def _describe_error(error: BaseException) -> RaisedError:
    """Describe an exception: type, message, last user position, traceback."""
    steps = [s for s in traceback.extract_tb(error.__traceback__) if is_user_code(s.filename)]
    position = None
    if steps:
        s = steps[-1]
        position = Position(s.filename, s.lineno or 0, s.colno, s.end_lineno, s.end_colno, s.name)
    inner = getattr(error, "inner_exception", None)
    name = type(error).__name__ + (f": {type(inner).__name__}" if inner is not None else "")
    lines = "".join(traceback.format_exception(error))
    return RaisedError(name, _first_paragraph(str(error)), position, lines)


def _module_numbers(target: object) -> dict[str, object]:
    """Return the Python numbers of a module and its submodules: {"layers.0.step": 3}."""
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
