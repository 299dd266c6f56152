"""Recompiles as one entry for each value that changed, with the failed guards as sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import torch

from fullgraph.compiler.events import Break, Graph, Position, Recompile, Recording
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import is_user_code, read_source
from fullgraph.diagnose.explanation_data import Note, RecompileInfo
from fullgraph.diagnose.taxonomy import Root, RootKind, describe_guard, root_of_guard
from fullgraph.diagnose.taxonomy.guards import EACH_RECOMPILES, EXPECT_ONE

_EACH_CALL = 3
"""Number of recompiles from which a plain value is taken to change in each call: after the first,
Dynamo makes a number or a size dynamic where it can."""


def describe_recompiles(
    recording: Recording, function: Position | None = None
) -> tuple[RecompileInfo, ...]:
    """Return one entry for each value that caused recompiles.

    Those that change in each call come first, then those with the longest compile time.
    `function` is where the function being explained is defined: a caller cannot mark the tensors of
    another frame as dynamic.
    """
    compile_seconds = {event.compile_id: event.total for event in recording.timings}
    groups: dict[tuple[str, ...], list[Recompile]] = {}
    sizes: dict[tuple[str, ...], tuple[str, ...]] = {}
    for event in recording.recompiles:
        root, key = _root_of(event), _key_of(event)
        if root.kind is RootKind.SIZE:  # a length has the same sizes wherever it arrives
            key = sizes.setdefault(root.key, key)
        groups.setdefault(key, []).append(event)
    entries = [_describe_recompiles(events, compile_seconds) for events in groups.values()]
    if function is not None:
        entries = [one if _is_of(one, function) else _without_marks(one) for one in entries]
    return tuple(sorted(entries, key=_weight))


def _is_of(one: RecompileInfo, function: Position) -> bool:
    return (one.file, one.line) == (function.file, function.line)


def _without_marks(one: RecompileInfo) -> RecompileInfo:
    return replace(one, advice=tuple(tip for tip in one.advice if "mark_dynamic" not in tip.after))


def _weight(one: RecompileInfo) -> tuple[bool, float, int]:
    return not changes_in_each_call(one), -(one.seconds or 0.0), -one.count


def changes_in_each_call(recompile: RecompileInfo) -> bool:
    """Return whether the value is one that recompiles until the limit, as a counter does."""
    return recompile.count >= _EACH_CALL and recompile.category not in _MODES


def without_recompiled(recording: Recording) -> Recording:
    """Return the recording without the graphs and breaks of compilations that show nothing new.

    They are those of recompiles: the same operators and breaks at the same lines as before.
    """
    known: set[object] = set()
    shown: dict[str, set[object]] = {}
    compiled: tuple[Graph | Break, ...] = (*recording.graphs, *recording.breaks)
    for event in compiled:
        shown.setdefault(event.compile_id, set()).add(_identity_of(event))
    new = set()
    for compile_id, keys in shown.items():
        if not keys <= known:
            new.add(compile_id)
            known |= keys
    gone = {id(event) for event in compiled if event.compile_id not in new}
    return replace(recording, events=tuple(e for e in recording.events if id(e) not in gone))


def _identity_of(event: Graph | Break) -> object:
    if isinstance(event, Break):
        return event.frame, event.gb_type, event.stack
    return event.frame, event.phase, tuple((node.target, node.line) for node in event.nodes)


_MODES = (RootKind.STATE, RootKind.TRAINING)
"""What a program sets to one of a few values, back and forth."""


def _guard_of(event: Recompile) -> str:
    """Return the guard that failed by what changed; "" if none is known.

    The first is that of the newest version: what changed since the last call. If that is a mode
    that was switched, another version was compiled in this mode, and failed by something else.
    """
    others = (one for one in event.guards if root_of_guard(one).kind not in _MODES)
    return next(others, next(iter(event.guards), ""))


def _root_of(event: Recompile) -> Root:
    return root_of_guard(_guard_of(event))


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
    guards = tuple(dict.fromkeys(_guard_of(event) for event in events if event.guards))
    described = [describe_guard(guard) for guard in reversed(guards)]
    different = {_without_numbers(sentence): (sentence, tips) for sentence, tips in described}
    kept = [*different.values()][::-1]  # of sentences that differ in numbers, the first
    constant = len(guards) > 1 and all(tips[:1] == (EXPECT_ONE,) for _, tips in described)
    found = [(EACH_RECOMPILES, *tips[1:]) if constant else tips for _, tips in kept]
    advice = {one.text: one for tips in found for one in tips}
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
        " ".join(sentence for sentence, _ in kept),
        tuple(advice.values()),
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


def _how_often(module: object, name: str) -> str:
    """Return how often a number of a module recompiles that each call changes, as a clause."""
    path, _, attribute = name.removeprefix("self.").rpartition(".")
    owner = module.get_submodule(path) if isinstance(module, torch.nn.Module) else None
    if isinstance(getattr(owner, attribute, None), float):
        return "its second value recompiles"
    return "each call that changes it recompiles, until the limit"


def note_guards(program: Program, counters: Iterable[str]) -> Iterator[Note]:
    """Yield a note for each Python value that Dynamo guards on and a later call may change.

    `counters` are the names of the module's numbers that changed during the calls: "self.step".
    """
    for name in counters:
        yield Note(
            "guard",
            f"`{name}` is a Python number that the call changed, and Dynamo guards on it: where "
            f"`forward` reads it, {_how_often(program.target, name)}.",
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
                else "a second value recompiles, and so does each other one where the code needs "
                "the number itself, as `range` does"
            )
            yield Note(
                "guard", f"{name} is the Python value {value!r}, guarded where it is read: {then}."
            )
