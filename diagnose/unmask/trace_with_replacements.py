"""One step of unmasking: eager values, replacements for breaking expressions, one more trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fullgraph.compiler.events import Position, Recording
from fullgraph.compiler.observe import (
    NodeRecorder,
    NotInstrumentable,
    Observations,
    ValueRecorder,
    run_without_compiling,
)
from fullgraph.compiler.sources import FunctionEdit, edit_functions
from fullgraph.diagnose.unmask.replacements import (
    NotReplaceable,
    have_different_values,
    replacement_edit,
)

NOT_EVALUATED = "it was not evaluated in eager"


@dataclass(frozen=True)
class ReplaceableBreak:
    """Place that breaks, and the expressions whose replacement removes the break."""

    place: Position
    callers: tuple[Position, ...]
    """The place and the expressions that call it, innermost first. The first of them that can be
    replaced is the one that gets replaced."""
    replay: bool = True
    """Whether values that differ are replayed in order; if not, the first is used for all."""


@dataclass(frozen=True)
class UnmaskRequest:
    """Breaks to replace, conditions to force, and seconds left."""

    targets: tuple[ReplaceableBreak, ...]
    forced: tuple[tuple[Position, bool], ...] = ()
    """Conditions, and the value that each has at its first evaluation."""
    seconds: float = 60.0


@dataclass(frozen=True)
class BranchCondition:
    """Condition at a break, and the values that it had in eager, in order."""

    place: Position
    """The place of the break."""
    at: Position
    """The place of the condition."""
    sides: tuple[bool, ...]


@dataclass(frozen=True)
class ReplacedBreak:
    """Break that was replaced, and how."""

    place: Position
    at: Position
    """The expression that was replaced: the place itself, or one that calls it."""
    replayed: bool
    approximate: bool
    """Whether the first value was used in place of others that differ."""


@dataclass(frozen=True)
class UnmaskResult:
    """The recording of one request, and the eager values at its breaks.

    It can be pickled, to be returned from a child process.
    """

    recording: Recording | None = None
    values: Observations = field(default_factory=Observations)
    replaced: tuple[ReplacedBreak, ...] = ()
    refused: tuple[tuple[Position, str], ...] = ()
    """Places that could not be replaced, and why."""
    tests: tuple[BranchCondition, ...] = ()
    error: str | None = None
    """Why there is no recording: the trace raised, crashed or took too long."""


def trace_with_replacements(
    request: UnmaskRequest, run: Callable[[], object], trace: Callable[[], Recording]
) -> UnmaskResult:
    """Run the program in eager, then trace it with the breaks of `request` replaced.

    `run` runs the program and `trace` compiles it, both in this process. Their side effects remain,
    so call this in isolation. The code of the live functions is restored.
    """
    recorder_set = ValueRecorder()
    chains = {target: _watch_callers(recorder_set, target) for target in request.targets}
    for target in request.targets:
        recorder_set.watch_inside(target.place)
    around = {
        recorder.node.at: recorder_set.watch_condition(recorder.node.at)
        for chain, _ in chains.values()
        for _, recorders in chain
        for recorder in recorders
    }
    forced = dict(request.forced)
    for at, side in forced.items():
        if at in recorder_set.recorders:
            recorder_set.recorders[at].force = side
    with edit_functions(recorder_set.edits()) as recoding:
        raised = run_without_compiling(run)
    unedited = {refusal.edit.at: refusal.reason for refusal in recoding.refused}
    edits: dict[Position, FunctionEdit] = {}
    replaced: list[ReplacedBreak] = []
    refused: list[tuple[Position, str]] = []
    tests: list[BranchCondition] = []
    for target, (chain, reason) in chains.items():
        for at, recorders in chain:
            try:
                found = _replacement_edits(recorders, target.replay, unedited, len(edits))
            except NotReplaceable as why:
                reason = reason or str(why)
                continue
            edits.update(found)
            varied = any(
                have_different_values(recorder) for recorder in recorders if recorder.order
            )
            replaced.append(
                ReplacedBreak(
                    target.place, at, varied and target.replay, varied and not target.replay
                )
            )
            for recorder in (around[node] for node in found):
                if recorder is None:
                    continue
                tests.append(BranchCondition(target.place, recorder.node.at, tuple(recorder.sides)))
                if recorder.node.at in forced and recorder.count:
                    edits[recorder.node.at] = replacement_edit(recorder, 100 * len(edits))
            break
        else:
            refused.append((target.place, reason))
    seen = [t.place for t in request.targets if any(at == t.place for at, _ in chains[t][0])]
    values = Observations(tuple(recorder_set.observed(place) for place in seen), (), raised)
    recording, error = None, None
    try:
        with edit_functions(edits.values()):
            recording = trace()
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}".partition("\n")[0]
    return UnmaskResult(recording, values, tuple(replaced), tuple(refused), tuple(tests), error)


Chain = list[tuple[Position, tuple[NodeRecorder, ...]]]


def _watch_callers(recorder_set: ValueRecorder, target: ReplaceableBreak) -> tuple[Chain, str]:
    """Return recorders for the two innermost of `target.callers` that can be instrumented.

    The str says why the innermost caller that was left out cannot be instrumented; "" if none was.
    """
    chain: Chain = []
    reason = ""
    for caller in target.callers:
        try:
            chain.append((caller, recorder_set.watch(caller, keep=True)))
        except NotInstrumentable as why:
            reason = reason or str(why)
        if len(chain) == 2:
            break
    return chain, reason


def _replacement_edits(
    recorders: tuple[NodeRecorder, ...], replay: bool, unedited: dict[Position, str], number: int
) -> dict[Position, FunctionEdit]:
    """Return the edits that replace the expressions of a place by their recorded values.

    If some of them had a value that has no literal, only these are replaced. With `replay`, values
    that differ are returned in order; else the first one is used. `unedited` says why an expression
    could not be instrumented; `number` makes names of globals unique. Raises NotReplaceable.
    """
    for recorder in recorders:
        if recorder.node.at in unedited:
            raise NotReplaceable(unedited[recorder.node.at])
    chosen = [
        recorder
        for recorder in recorders
        if recorder.count and (len(recorders) == 1 or not recorder.plain)
    ]
    chosen = chosen or [recorder for recorder in recorders if recorder.count]
    if not chosen:
        raise NotReplaceable(NOT_EVALUATED)
    return {
        recorder.node.at: replacement_edit(recorder, 100 * number + n, replay=replay)
        for n, recorder in enumerate(chosen)
    }
