"""Recompiles as one entry for each frame, with the failed guards as sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fullgraph.compiler.events import Recompile, Recording
from fullgraph.compiler.program import Program
from fullgraph.diagnose.explanation_data import Note, RecompileInfo
from fullgraph.diagnose.taxonomy import describe_guard


def describe_recompiles(recording: Recording) -> tuple[RecompileInfo, ...]:
    """Return one entry for each frame that was compiled again."""
    frames: dict[tuple[object, str], list[Recompile]] = {}
    for event in recording.recompiles:
        frames.setdefault((event.frame, event.compile_id.partition("/")[0]), []).append(event)
    return tuple(_describe_recompiles(events) for events in frames.values())


def _describe_recompiles(events: list[Recompile]) -> RecompileInfo:
    """Describe all recompiles of one frame."""
    frame = events[0].frame
    # The first guard is that of the newest version: what changed since the last call.
    guards = tuple(dict.fromkeys(event.guards[0] for event in events if event.guards))
    described = [describe_guard(guard) for guard in guards]
    sentences = {_without_numbers(sentence): sentence for sentence, _ in reversed(described)}
    advice = {one.text: one for _, tips in reversed(described) for one in reversed(tips)}
    return RecompileInfo(
        frame.function,
        frame.file,
        frame.line,
        len(events),
        guards,
        tuple(dict.fromkeys(p for event in events for p in event.positions)),
        " ".join(reversed(sentences.values())),
        tuple(reversed(advice.values())),
    )


def _without_numbers(sentence: str) -> str:
    """Return a sentence without the numbers outside of backquotes."""
    return re.sub(r"(`[^`]*`)|\d+", r"\1", sentence)


def note_guards(program: Program, counters: Iterable[str]) -> Iterator[Note]:
    """Yield a note for each value that Dynamo guards on and another call will likely change.

    `counters` are the Python numbers of the module that the calls changed.
    """
    for name in counters:
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
