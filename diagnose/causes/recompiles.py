"""From recompile events to one row a function, with its guards in plain words."""

from __future__ import annotations

from collections.abc import Iterable

from fullgraph.compiler.events import Recompile, Recording
from fullgraph.compiler.program import Program
from fullgraph.diagnose.explanation import Advice, Note, RecompileInfo
from fullgraph.diagnose.taxonomy import describe_guard
from fullgraph.diagnose.trace import Trace


def recompiles(recording: Recording) -> tuple[RecompileInfo, ...]:
    """The recompiles of a recording: one row for each frame that was compiled again."""
    rows: dict[tuple[object, str], list[Recompile]] = {}
    for event in recording.recompiles:
        rows.setdefault((event.frame, event.compile_id.partition("/")[0]), []).append(event)
    return tuple(_row(events) for events in rows.values())


def _row(events: list[Recompile]) -> RecompileInfo:
    frame = events[0].frame
    # The newest version's guard is what this call differed in from the last one.
    guards = tuple(dict.fromkeys(event.guards[0] for event in events if event.guards))
    told = [describe_guard(guard) for guard in guards]
    advice: dict[Advice, None] = dict.fromkeys(a for _, every in told for a in every)
    return RecompileInfo(
        frame.function,
        frame.file,
        frame.line,
        len(events),
        guards,
        tuple(dict.fromkeys(p for event in events for p in event.positions)),
        " ".join(dict.fromkeys(sentence for sentence, _ in told)),
        tuple(advice),
    )


def guard_notes(program: Program, trace: Trace) -> Iterable[Note]:
    """Values that Dynamo guards on and that another call will likely change."""
    for name in trace.counters:
        yield Note(
            "guard",
            f"`{name}` is a Python number that changes with each call, and Dynamo guards on it: "
            "where `forward` reads it, each call recompiles until the limit.",
        )
    call = program.calls[0]
    named: list[tuple[str, object]] = [
        *((f"argument {n}", value) for n, value in enumerate(call.args, 1)),
        *((f"`{name}`", value) for name, value in call.kwargs.items()),
    ]
    for name, value in named:
        if type(value) in (int, float, str):
            then = (
                "each other value recompiles"
                if isinstance(value, str)
                else "a second value recompiles once, and it is dynamic from then on"
            )
            yield Note("guard", f"{name} is the Python value {value!r}, guarded: {then}.")
