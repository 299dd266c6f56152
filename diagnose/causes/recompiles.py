"""Recompiles as one entry for each value that changed, with the failed guards as sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from fullgraph.compiler.events import Position, Recompile, Recording
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import is_user_code, read_source
from fullgraph.diagnose.explanation_data import Note, RecompileInfo
from fullgraph.diagnose.taxonomy import Root, RootKind, describe_guard, root_of_guard


def describe_recompiles(recording: Recording) -> tuple[RecompileInfo, ...]:
    """Return one entry for each value that caused recompiles, the longest compile time first."""
    compile_seconds = {event.compile_id: event.total for event in recording.timings}
    groups: dict[tuple[str, ...], list[Recompile]] = {}
    sizes: dict[tuple[str, ...], tuple[str, ...]] = {}
    for event in recording.recompiles:
        root, key = _root_of(event), _key_of(event)
        if root.kind is RootKind.SIZE:  # a length has the same sizes wherever it arrives
            key = sizes.setdefault(root.key, key)
        groups.setdefault(key, []).append(event)
    entries = [_describe_recompiles(events, compile_seconds) for events in groups.values()]
    return tuple(sorted(entries, key=lambda one: (-(one.seconds or 0.0), -one.count)))


def _root_of(event: Recompile) -> Root:
    # The first guard is that of the newest version: what changed since the last call.
    return root_of_guard(event.guards[0] if event.guards else "")


def _key_of(event: Recompile) -> tuple[str, ...]:
    """Return the key by which recompiles are grouped into entries.

    An attribute of `self` has one entry per file. A global variable, or a value without a name, has
    one entry in all. Any other value has one entry per frame.
    """
    root = _root_of(event)
    if root.name.startswith("self.") and root.kind is not RootKind.SIZE:
        return *root.key, *(position.file for position in event.positions[:1])
    if not root.name or root.kind is RootKind.GLOBAL:
        return root.key
    name = root.name.partition(".shape[")[0]
    return root.kind, name, event.frame.file, str(event.frame.line)


def _describe_recompiles(
    events: list[Recompile], compile_seconds: Mapping[str, float | None]
) -> RecompileInfo:
    """Return all recompiles that one changing value caused as one `RecompileInfo`.

    `compile_seconds` holds the compile time by compile id; None if it is unknown.
    """
    frame = events[0].frame
    guards = tuple(dict.fromkeys(event.guards[0] for event in events if event.guards))
    described = [describe_guard(guard) for guard in guards]
    sentences = {_without_numbers(sentence): sentence for sentence, _ in reversed(described)}
    advice = {one.text: one for _, tips in reversed(described) for one in reversed(tips)}
    positions = tuple(dict.fromkeys(p for event in events for p in event.positions))
    root = _root_of(events[0])
    seconds = [compile_seconds.get(event.compile_id) for event in events]
    known = [one for one in seconds if one is not None]
    return RecompileInfo(
        frame.function,
        frame.file,
        frame.line,
        len(events),
        guards,
        positions,
        " ".join(reversed(sentences.values())),
        tuple(reversed(advice.values())),
        root.name,
        root.kind.value,
        _place_of(root, positions, frame),
        tuple(dict.fromkeys(event.frame.function for event in events)),
        sum(known) if known else None,
    )


def _place_of(root: Root, positions: Iterable[Position], frame: Position) -> Position | None:
    """Return where user code reads the changed value `root`; None if no user code does.

    `positions` are the lines that installed the failed guard, `frame` is the recompiled function.
    The first of these that is user code is returned, narrowed to the value's name if its line has
    it.
    """
    place = next((p for p in (*positions, frame) if is_user_code(p.file)), None)
    source = read_source(place.file) if place is not None else None
    if place is None or source is None:
        return place
    line = "".join(source.text.splitlines()[place.line - 1 : place.line])
    last = root.name.partition(".shape[")[0].rpartition(".")[2]
    for name in (root.name, f"self.{last}", last):
        found = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", line) if name else None
        if found:
            start, end = (len(line[:n].encode()) for n in found.span())
            return Position(place.file, place.line, start, place.line, end, place.function)
    return place


def _without_numbers(sentence: str) -> str:
    """Return `sentence` with all numbers removed, except those in backquotes."""
    return re.sub(r"(`[^`]*`)|\d+", r"\1", sentence)


def note_guards(program: Program, counters: Iterable[str]) -> Iterator[Note]:
    """Yield a note for each Python value that Dynamo guards on and a later call may change.

    `counters` are the names of the module's numbers that changed during the calls: "self.step".
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
