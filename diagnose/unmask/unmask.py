"""Search for graph breaks hidden behind others: replace, trace again, until nothing is new.

A frame that Dynamo skips shows its first break only, and a branch on data only the side it
took. Each round replaces every break known so far by its value in eager and traces again; what
breaks now was hidden. When nothing new appears, the tests that broke are sent to the side they
did not take, and the search goes on there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fullgraph.compiler.events import Break, Fate, Position, Recording, Span
from fullgraph.compiler.observe import (
    NodeUse,
    NotInstrumentable,
    Observations,
    branch_runs_code,
    condition_around,
    nodes_to_instrument,
)
from fullgraph.compiler.sources import Owner, owner_of
from fullgraph.diagnose.causes import HiddenBreak, calling_positions, place_of
from fullgraph.diagnose.unmask.trace_with_replacements import (
    NOT_EVALUATED,
    BranchCondition,
    ReplaceableBreak,
    UnmaskRequest,
    UnmaskResult,
)


@dataclass(frozen=True)
class BlockedPlace:
    """A place behind which the search cannot look, with the reason as a clause."""

    place: Position
    reason: str


@dataclass(frozen=True)
class UnmaskRound:
    """Result of one round of the search; the last round has `stopped`."""

    number: int
    found: tuple[HiddenBreak, ...] = ()
    values: Observations = field(default_factory=Observations)
    """The eager values of everything replaced in this round, under `forced`."""
    blocked: tuple[BlockedPlace, ...] = ()
    """Where the search cannot go on, as far as is known now."""
    consequences: tuple[Position, ...] = ()
    """Places that break no more although nothing stood in for them: others made them break."""
    forced: tuple[tuple[Position, bool], ...] = ()
    """The tests that were sent to a side they do not take."""
    seconds: float = 0.0
    runs: int = 0
    """How often the user's code ran: once in eager, once in the trace."""
    stopped: str | None = None
    """Why this is the last round: "nothing new", "rounds" or "seconds"."""


def unmask(
    first: Recording,
    trace_with_replacements: Callable[[UnmaskRequest], UnmaskResult],
    *,
    rounds: int = 12,
    seconds: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[UnmaskRound]:
    """Look behind every break of `first`; yield after each round, at least once.

    `trace_with_replacements` runs one request in isolation, from the state in which `first` was
    recorded. For a child that crashed or exceeded `UnmaskRequest.seconds` it returns a result with
    `error`.
    """
    start = clock()
    search = _UnmaskSearch()
    search.learn(first.breaks)
    if not search.has_work(first):
        yield UnmaskRound(0, blocked=search.blocked(), stopped="nothing new")
        return
    for number in range(1, rounds + 1):
        before = clock()
        trial = search.trial(seconds - (before - start))
        outcome = trace_with_replacements(trial)
        found = search.take(outcome)
        stopped = None if search.goes_on() else "nothing new"
        if stopped is None and number == rounds:
            stopped = "rounds"
        if stopped is None and clock() - start >= seconds:
            stopped = "seconds"
        yield UnmaskRound(
            number,
            found,
            outcome.values,
            search.blocked(),
            tuple(search.consequences),
            trial.forced,
            clock() - before,
            2,
            stopped,
        )
        if stopped is not None:
            return


@dataclass(frozen=True)
class _ForcedBranches:
    """Conditions whose branch is forced; empty for the branches that the inputs take."""

    forced: tuple[tuple[Position, bool], ...] = ()
    flips: tuple[Position, ...] = ()
    """The tests of `forced` that were not forced in the world this one came from."""


@dataclass
class _UnmaskSearch:
    """State of the search: known breaks, and the branches that are still to be traced."""

    targets: dict[Span, ReplaceableBreak] = field(default_factory=dict)
    whole: dict[Span, str] = field(default_factory=dict)
    """Places that cannot be replaced, and why."""
    opened: set[Span] = field(default_factory=set)
    """Places that were replaced in some world."""
    refusals: dict[Span, BlockedPlace] = field(default_factory=dict)
    """Places for which nothing stood in in some world."""
    ends: list[BlockedPlace] = field(default_factory=list)
    """Where a world ended in an exception."""
    consequences: list[Position] = field(default_factory=list)
    worlds: deque[_ForcedBranches] = field(default_factory=lambda: deque([_ForcedBranches()]))
    flipped: set[tuple[Position, bool]] = field(default_factory=set)
    suspects: dict[Span, HiddenBreak] = field(default_factory=dict)
    """New whole-frame breaks: often they only follow from a skipped caller, and vanish."""
    hushed: set[Span] = field(default_factory=set)
    """Where the user's code raises on a side not taken."""

    def learn(self, breaks: Sequence[Break]) -> list[Break]:
        """Add the places that break; return the first break of each new place."""
        new = []
        for brk in breaks:
            place = place_of(brk)
            spot = place.span
            if spot in self.targets or owner_of(place.file) is Owner.PYTHON:
                continue
            self.targets[spot] = target = ReplaceableBreak(
                place, calling_positions(brk) or (place,)
            )
            new.append(brk)
            if reason := _reason_unreplaceable(target):
                self.whole[spot] = reason
        return new

    def has_work(self, first: Recording) -> bool:
        """Return whether anything can be hidden: by an incompletely traced frame, or a branch."""
        hides = any(brk.fate is not Fate.RESUMED or len(brk.stack) > 1 for brk in first.breaks)
        known = [target for spot, target in self.targets.items() if spot not in self.whole]
        return bool(known) and (hides or any(_has_test(target) for target in known))

    def trial(self, seconds: float) -> UnmaskRequest:
        """Return the next request: replace every known break, under the current branches."""
        known = tuple(target for spot, target in self.targets.items() if spot not in self.whole)
        return UnmaskRequest(known, self.worlds[0].forced, seconds)

    def take(self, outcome: UnmaskResult) -> tuple[HiddenBreak, ...]:
        """Record the result of a request, and return the breaks that it uncovered.

        If it uncovered none, the current branches are finished, and the next ones in the queue
        follow.
        """
        world = self.worlds[0]
        breaks = outcome.recording.breaks if outcome.recording else ()
        if any(done.approximate for done in outcome.replaced):
            breaks = tuple(brk for brk in breaks if not _is_consequence(brk))
        fresh = [done.place for done in outcome.replaced if done.place.span not in self.opened]
        doors = fresh or [test.place for test in outcome.tests if test.at in world.flips]
        self.opened |= {done.place.span for done in outcome.replaced}
        again = self._step_out(outcome, {place_of(brk).span for brk in breaks})
        hidden = [
            HiddenBreak(brk, place_of(brk), _place_behind(brk, doors), bool(world.forced))
            for brk in self.learn(breaks)
        ]
        self.suspects |= {h.place.span: h for h in hidden if h.place.span in self.whole}
        found = [h for h in hidden if h.place.span not in self.whole]
        for place, reason in outcome.refused:
            if reason != NOT_EVALUATED or not world.forced:
                self.refusals[place.span] = BlockedPlace(place, reason)
        if outcome.recording is None or not (found or again):
            found += self._finish_world(outcome, {place_of(brk).span for brk in breaks})
        return tuple(found)

    def goes_on(self) -> bool:
        """Return whether branches remain to be traced."""
        return bool(self.worlds)

    def blocked(self) -> tuple[BlockedPlace, ...]:
        """Return the places that could not be replaced, and the branches that could not be
        traced."""
        hushed = {place.span for place in self.consequences} | self.hushed | set(self.suspects)
        notes = {k: BlockedPlace(self.targets[k].place, why) for k, why in self.whole.items()}
        notes |= {k: note for k, note in self.refusals.items() if k not in self.opened}
        kept = [note for spot, note in notes.items() if spot not in hushed]
        return (*kept, *self.ends)

    def _step_out(self, outcome: UnmaskResult, broken: set[Span]) -> bool:
        """Choose another replacement where a replaced place broke again; return whether one did."""
        stepped = False
        for done in outcome.replaced:
            spot = done.place.span
            if spot not in broken:
                continue
            stepped = True
            target = self.targets[spot]
            outer = target.callers[target.callers.index(done.at) + 1 :]
            if done.replayed:
                self.targets[spot] = replace(target, replay=False)
            elif outer:
                self.targets[spot] = replace(target, callers=outer)
            else:
                self.whole[spot] = "it still breaks with its value put in its place"
        return stepped

    def _finish_world(self, outcome: UnmaskResult, broken: set[Span]) -> list[HiddenBreak]:
        """Finish the current branches and queue those not taken; return the suspects that broke."""
        world = self.worlds.popleft()
        held = {spot: hidden for spot, hidden in self.suspects.items() if spot in broken}
        if world.forced and outcome.values.raised:  # the user's own exception is no break
            raised = [spot for spot, hidden in held.items() if _is_consequence(hidden.event)]
            self.hushed.update(raised)
            held = {spot: hidden for spot, hidden in held.items() if spot not in self.hushed}
        if not world.forced and outcome.recording is not None:
            self.consequences += [
                target.place
                for spot, target in self.targets.items()
                if spot not in self.opened and spot not in broken
            ]
        self.suspects.clear()
        failure = outcome.error or (outcome.values.raised if world.forced else None)
        if failure and len(world.flips) == 1:
            self.ends.append(BlockedPlace(world.flips[0], f"its other side raises {failure}"))
        elif failure and not world.forced:
            last = [*self.targets.values()][-1].place
            self.ends.append(BlockedPlace(last, f"the trace behind it ended in {failure}"))
        self._queue_other_sides(world, outcome.tests, bool(failure))
        return list(held.values())

    def _queue_other_sides(
        self, world: _ForcedBranches, tests: Sequence[BranchCondition], failed: bool
    ) -> None:
        """Queue the branches not taken, all at once. Branches that were forced together and raised,
        or hid one another, are queued one by one."""
        reached = {test.at for test in tests if test.sides}
        if len(world.flips) > 1:
            base = tuple(pair for pair in world.forced if pair[0] not in world.flips)
            self.worlds += [
                _ForcedBranches((*base, (at, side)), (at,))
                for at, side in world.forced
                if at in world.flips and (failed or at not in reached)
            ]
        forced = dict(world.forced)
        sides = [(test.at, not test.sides[0]) for test in tests if len(set(test.sides)) == 1]
        pending = [
            (at, side)
            for at, side in dict.fromkeys(sides)
            if at not in forced and (at, side) not in self.flipped and branch_runs_code(at, side)
        ]
        if pending:
            self.flipped.update(pending)
            kept = tuple(pair for pair in world.forced if pair[0] in reached)
            self.worlds.append(_ForcedBranches((*kept, *pending), tuple(at for at, _ in pending)))


def _reason_unreplaceable(target: ReplaceableBreak) -> str:
    """Return why an expression can never be replaced; "" if it may be."""
    reason = ""
    for caller in target.callers:
        try:
            nodes_to_instrument(caller)
            return ""
        except NotInstrumentable as why:
            reason = reason or str(why)
    return reason


def _has_test(target: ReplaceableBreak) -> bool:
    """Return whether a condition is evaluated at a place."""
    try:
        return any(
            node.use in (NodeUse.TRUTH, NodeUse.OPERAND) or condition_around(node.at)
            for node in nodes_to_instrument(target.callers[0])
        )
    except NotInstrumentable:
        return False


def _is_consequence(brk: Break) -> bool:
    """Return whether a replacement of the wrong shape or value may cause the break."""
    text = " ".join((brk.gb_type, *brk.wrappers)).lower()
    return "observed" in text or "fake tensor" in text


def _place_behind(brk: Break, doors: Sequence[Position]) -> Position | None:
    """Return the replaced place that most likely hid the break: the last one before it in its
    frame."""
    best, score = None, -1
    for place in doors:
        rank = 0
        for frame in brk.stack:
            if (frame.file, frame.function) == (place.file, place.function):
                rank = max(rank, 2 if place.line <= frame.line else 1)
        if rank >= score:
            best, score = place, rank
    return best
