"""One trial of unmasking: values from eager, stand-ins for what breaks, one more trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fullgraph.compiler.events import Position, Recording
from fullgraph.compiler.observe.slots import NoSlot
from fullgraph.compiler.observe.values import Observations, Reel, Tape, attempt
from fullgraph.compiler.sources import FunctionEdit, edit_functions
from fullgraph.diagnose.unmask.replacements import NoStandIn, differs, stand_in

NOT_EVALUATED = "it was not evaluated in eager"


@dataclass(frozen=True)
class Target:
    """A place that breaks, and where something can stand in for it."""

    place: Position
    callers: tuple[Position, ...]
    """The place and the expressions that call it, innermost first: the first that can be
    replaced is."""
    replay: bool = True
    """Whether values that differ are replayed; else the first stands for all."""


@dataclass(frozen=True)
class Trial:
    """What to replace, which tests to force, and how many seconds are left."""

    targets: tuple[Target, ...]
    forced: tuple[tuple[Position, bool], ...] = ()
    """Tests and the side each takes at its first evaluation."""
    seconds: float = 60.0


@dataclass(frozen=True)
class Test:
    """A test that breaks or holds what does, and the sides it took in eager, in order."""

    place: Position
    at: Position
    sides: tuple[bool, ...]


@dataclass(frozen=True)
class Replaced:
    """What stood in for a place."""

    place: Position
    at: Position
    """The expression that was replaced: the place itself, or one that calls it."""
    replayed: bool
    approximate: bool
    """Whether the first value stood for others that differ."""


@dataclass(frozen=True)
class Outcome:
    """What a trial brought; plain data."""

    recording: Recording | None = None
    values: Observations = field(default_factory=Observations)
    replaced: tuple[Replaced, ...] = ()
    refused: tuple[tuple[Position, str], ...] = ()
    """Places for which nothing stood in, and why."""
    tests: tuple[Test, ...] = ()
    error: str | None = None
    """Why there is no recording: the trace raised, crashed or took too long."""


def perform(trial: Trial, run: Callable[[], object], trace: Callable[[], Recording]) -> Outcome:
    """Make a trial in this process: one call of `run` (eager), then one of `trace`.

    Both change whatever the user's code changes: call this in isolation. Live functions have
    their own code back afterwards.
    """
    reel = Reel()
    chains = {target: _watch(reel, target) for target in trial.targets}
    for target in trial.targets:
        reel.watch_inside(target.place)
    around = {
        tape.slot.at: reel.watch_test(tape.slot.at)
        for chain, _ in chains.values()
        for _, tapes in chain
        for tape in tapes
    }
    forced = dict(trial.forced)
    for at, side in forced.items():
        if at in reel.tapes:
            reel.tapes[at].force = side
    with edit_functions(reel.edits()) as recoding:
        raised = attempt(run)
    unmade = {refusal.edit.at: refusal.reason for refusal in recoding.refused}
    edits: dict[Position, FunctionEdit] = {}
    replaced: list[Replaced] = []
    refused: list[tuple[Position, str]] = []
    tests: list[Test] = []
    for target, (chain, reason) in chains.items():
        for at, tapes in chain:
            try:
                found = _stand_ins(tapes, target.replay, unmade, len(edits))
            except NoStandIn as why:
                reason = reason or str(why)
                continue
            edits.update(found)
            varied = any(differs(tape) for tape in tapes if tape.order)
            replaced.append(
                Replaced(target.place, at, varied and target.replay, varied and not target.replay)
            )
            for tape in (around[slot] for slot in found):
                if tape is None:
                    continue
                tests.append(Test(target.place, tape.slot.at, tuple(tape.sides)))
                if tape.slot.at in forced and tape.count:
                    edits[tape.slot.at] = stand_in(tape, 100 * len(edits))
            break
        else:
            refused.append((target.place, reason))
    seen = [t.place for t in trial.targets if any(at == t.place for at, _ in chains[t][0])]
    values = Observations(tuple(reel.observed(place) for place in seen), (), raised)
    recording, error = None, None
    try:
        with edit_functions(edits.values()):
            recording = trace()
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}".partition("\n")[0]
    return Outcome(recording, values, tuple(replaced), tuple(refused), tuple(tests), error)


Chain = list[tuple[Position, tuple[Tape, ...]]]


def _watch(reel: Reel, target: Target) -> tuple[Chain, str]:
    """The tapes of the two innermost replaceable callers, and why inner ones are not."""
    chain: Chain = []
    reason = ""
    for caller in target.callers:
        try:
            chain.append((caller, reel.watch(caller, keep=True)))
        except NoSlot as why:
            reason = reason or str(why)
        if len(chain) == 2:
            break
    return chain, reason


def _stand_ins(
    tapes: tuple[Tape, ...], replay: bool, unmade: dict[Position, str], number: int
) -> dict[Position, FunctionEdit]:
    """The edits that replace a place. Of several slots only those that are not plain values
    already, unless all are. Raises NoStandIn."""
    for tape in tapes:
        if tape.slot.at in unmade:
            raise NoStandIn(unmade[tape.slot.at])
    chosen = [tape for tape in tapes if tape.count and (len(tapes) == 1 or not tape.plain)]
    chosen = chosen or [tape for tape in tapes if tape.count]
    if not chosen:
        raise NoStandIn(NOT_EVALUATED)
    return {
        tape.slot.at: stand_in(tape, 100 * number + n, replay=replay)
        for n, tape in enumerate(chosen)
    }
