"""Search for graph breaks hidden behind others: replace, trace again, until nothing is new.

A frame that Dynamo skips shows its first break only, and a data-dependent `if` only the branch it
took. Each round replaces every break known so far by its value in eager and traces again; what
breaks now was hidden. When nothing new appears, each condition that broke is forced to the branch
it did not take, and the search continues there.
"""

from __future__ import annotations

import ast
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
from fullgraph.compiler.sources import Owner, owner_of, read_source
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
    """Places behind which the search cannot look, as far as is known now."""
    consequences: tuple[Position, ...] = ()
    """Places that stopped breaking without being replaced: other breaks caused theirs."""
    forced: tuple[tuple[Position, bool], ...] = ()
    """The conditions that were forced, each with its branch."""
    seconds: float = 0.0
    runs: int = 0
    """How often the user's code ran: once in eager, once in the trace."""
    stopped: str | None = None
    """Why this is the last round: "nothing new", "rounds" or "seconds"; None for other rounds."""


def unmask(
    first: Recording,
    trace_with_replacements: Callable[[UnmaskRequest], UnmaskResult],
    *,
    rounds: int = 12,
    seconds: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[UnmaskRound]:
    """Search for breaks hidden behind those of `first`; yield the result of each round.

    There is at least one round. `trace_with_replacements` runs one request in isolation, from the
    state in which `first` was recorded. For a child that crashed or exceeded
    `UnmaskRequest.seconds` it returns a result with `error`.
    """
    start = clock()
    search = _UnmaskSearch()
    search.add_targets(first.breaks)
    if not search.has_work(first):
        yield UnmaskRound(0, blocked=search.blocked(), stopped="nothing new")
        return
    for number in range(1, rounds + 1):
        before = clock()
        trial = search.next_request(seconds - (before - start))
        outcome = trace_with_replacements(trial)
        found = search.process_result(outcome)
        stopped = None if search.has_more() else "nothing new"
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
    """Conditions to force, each with its value; if there are none, the inputs decide."""

    forced: tuple[tuple[Position, bool], ...] = ()
    new: tuple[Position, ...] = ()
    """The conditions of `forced` that are forced here for the first time."""


@dataclass
class _UnmaskSearch:
    """State of the search: known breaks, and the branches that are still to be traced."""

    targets: dict[Span, ReplaceableBreak] = field(default_factory=dict)
    unreplaceable: dict[Span, str] = field(default_factory=dict)
    """Places that cannot be replaced, and why."""
    replaced: set[Span] = field(default_factory=set)
    """Places that were replaced at least once."""
    refusals: dict[Span, BlockedPlace] = field(default_factory=dict)
    """Places that could not be replaced in some branches, and why."""
    ends: list[BlockedPlace] = field(default_factory=list)
    """Where forced branches ended in an exception."""
    consequences: list[Position] = field(default_factory=list)
    queue: deque[_ForcedBranches] = field(default_factory=lambda: deque([_ForcedBranches()]))
    flipped: set[tuple[Position, bool]] = field(default_factory=set)
    """Conditions that were queued with the value that they do not have for the inputs."""
    suspects: dict[Span, HiddenBreak] = field(default_factory=dict)
    """New breaks that cannot be replaced. Often a skipped caller causes them, and they are gone in
    a later round."""
    ignored: set[Span] = field(default_factory=set)
    """Places where the user's code raises in a forced branch."""

    def add_targets(self, breaks: Sequence[Break]) -> list[Break]:
        """Add the places of `breaks` to the targets; return the first break of each new place."""
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
                self.unreplaceable[spot] = reason
        return new

    def has_work(self, first: Recording) -> bool:
        """Return whether anything can be hidden: by an incompletely traced frame, or a branch."""
        hides = any(brk.fate is not Fate.RESUMED or len(brk.stack) > 1 for brk in first.breaks)
        known = [target for spot, target in self.targets.items() if spot not in self.unreplaceable]
        return bool(known) and (hides or any(_has_condition(target) for target in known))

    def next_request(self, seconds: float) -> UnmaskRequest:
        """Return the next request: replace every known break, under the current branches."""
        known = tuple(
            target for spot, target in self.targets.items() if spot not in self.unreplaceable
        )
        return UnmaskRequest(known, self.queue[0].forced, seconds)

    def process_result(self, outcome: UnmaskResult) -> tuple[HiddenBreak, ...]:
        """Record the result of a request, and return the breaks that it uncovered.

        If it uncovered none, the current branches are finished, and the next ones in the queue
        follow.
        """
        branches = self.queue[0]
        breaks = outcome.recording.breaks if outcome.recording else ()
        if any(done.approximate for done in outcome.replaced):
            breaks = tuple(brk for brk in breaks if not _is_consequence(brk))
        fresh = [done.place for done in outcome.replaced if done.place.span not in self.replaced]
        replaced = fresh or [test.place for test in outcome.tests if test.at in branches.new]
        self.replaced |= {done.place.span for done in outcome.replaced}
        again = self._choose_other_replacements(outcome, {place_of(brk).span for brk in breaks})
        hidden = [
            HiddenBreak(brk, place_of(brk), _place_behind(brk, replaced), bool(branches.forced))
            for brk in self.add_targets(breaks)
        ]
        if branches.forced:  # a `raise` on a side that no input takes ends a call, not a graph
            self.ignored |= {h.place.span for h in hidden if _is_raise(h.place)}
            hidden = [h for h in hidden if h.place.span not in self.ignored]
        self.suspects |= {h.place.span: h for h in hidden if h.place.span in self.unreplaceable}
        found = [h for h in hidden if h.place.span not in self.unreplaceable]
        for place, reason in outcome.refused:
            if reason != NOT_EVALUATED or not branches.forced:
                self.refusals[place.span] = BlockedPlace(place, reason)
        if outcome.recording is None or not (found or again):
            found += self._finish_branches(outcome, {place_of(brk).span for brk in breaks})
        return tuple(found)

    def has_more(self) -> bool:
        """Return whether branches remain to be traced."""
        return bool(self.queue)

    def blocked(self) -> tuple[BlockedPlace, ...]:
        """Return the places that could not be replaced or whose branch could not be traced."""
        ignored = {place.span for place in self.consequences} | self.ignored | set(self.suspects)
        notes = {
            k: BlockedPlace(self.targets[k].place, why) for k, why in self.unreplaceable.items()
        }
        notes |= {k: note for k, note in self.refusals.items() if k not in self.replaced}
        kept = [note for spot, note in notes.items() if spot not in ignored]
        return (*kept, *self.ends)

    def _choose_other_replacements(self, outcome: UnmaskResult, broken: set[Span]) -> bool:
        """Choose another replacement for each replaced place in `broken`; return whether one is."""
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
                self.unreplaceable[spot] = "it still breaks with its value put in its place"
        return stepped

    def _finish_branches(self, outcome: UnmaskResult, broken: set[Span]) -> list[HiddenBreak]:
        """Finish the current branches and queue those not taken; return the suspects that broke."""
        branches = self.queue.popleft()
        held = {spot: hidden for spot, hidden in self.suspects.items() if spot in broken}
        if branches.forced and outcome.values.raised:  # the user's own exception is no break
            raised = [spot for spot, hidden in held.items() if _is_consequence(hidden.event)]
            self.ignored.update(raised)
            held = {spot: hidden for spot, hidden in held.items() if spot not in self.ignored}
        if not branches.forced and outcome.recording is not None:
            self.consequences += [
                target.place
                for spot, target in self.targets.items()
                if spot not in self.replaced and spot not in broken
            ]
        self.suspects.clear()
        failure = outcome.error or (outcome.values.raised if branches.forced else None)
        if failure and len(branches.new) == 1:
            how = (
                "the trace of its other side ended in" if outcome.error else "its other side raises"
            )
            self.ends.append(BlockedPlace(branches.new[0], f"{how} {failure}"))
        elif failure and not branches.forced:
            last = [*self.targets.values()][-1].place
            self.ends.append(BlockedPlace(last, f"the trace behind it ended in {failure}"))
        self._queue_other_branches(branches, outcome.tests, bool(failure))
        return list(held.values())

    def _queue_other_branches(
        self, branches: _ForcedBranches, tests: Sequence[BranchCondition], failed: bool
    ) -> None:
        """Queue the branches that were not taken, to be forced together.

        Queue them one by one if they were forced together and raised, or hid one another.
        """
        reached = {test.at for test in tests if test.sides}
        if len(branches.new) > 1:
            base = tuple(pair for pair in branches.forced if pair[0] not in branches.new)
            self.queue += [
                _ForcedBranches((*base, (at, side)), (at,))
                for at, side in branches.forced
                if at in branches.new and (failed or at not in reached)
            ]
        forced = dict(branches.forced)
        sides = [(test.at, not test.sides[0]) for test in tests if len(set(test.sides)) == 1]
        pending = [
            (at, side)
            for at, side in dict.fromkeys(sides)
            if at not in forced and (at, side) not in self.flipped and branch_runs_code(at, side)
        ]
        if pending:
            self.flipped.update(pending)
            kept = tuple(pair for pair in branches.forced if pair[0] in reached)
            self.queue.append(_ForcedBranches((*kept, *pending), tuple(at for at, _ in pending)))


def _reason_unreplaceable(target: ReplaceableBreak) -> str:
    """Return why neither the place of a break nor its callers can be replaced; "" if one may be."""
    reason = ""
    for caller in target.callers:
        try:
            nodes_to_instrument(caller)
            return ""
        except NotInstrumentable as why:
            reason = reason or str(why)
    return reason


def _has_condition(target: ReplaceableBreak) -> bool:
    """Return whether the code at a break evaluates a condition, as `if x:` and `x and y` do."""
    try:
        return any(
            node.use in (NodeUse.TRUTH, NodeUse.OPERAND) or condition_around(node.at)
            for node in nodes_to_instrument(target.callers[0])
        )
    except NotInstrumentable:
        return False


def _is_raise(place: Position) -> bool:
    source = read_source(place.file)
    return source is not None and isinstance(source.node(place), ast.Raise)


def _is_consequence(brk: Break) -> bool:
    """Return whether the break may come only from a replacement that has a wrong shape or value."""
    text = " ".join((brk.gb_type, *brk.wrappers)).lower()
    return "observed" in text or "fake tensor" in text


def _place_behind(brk: Break, replaced: Sequence[Position]) -> Position | None:
    """Return which of the replaced places most likely hid the break; None if there are none.

    The most likely is a place in a function on the break's stack, not below the line that the stack
    has reached there.
    """
    best, score = None, -1
    for place in replaced:
        rank = 0
        for frame in brk.stack:
            if (frame.file, frame.function) == (place.file, place.function):
                rank = max(rank, 2 if place.line <= frame.line else 1)
        if rank >= score:
            best, score = place, rank
    return best
