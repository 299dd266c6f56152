"""`explain`: every graph break once, by cause, at its expression."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch

from fullgraph.compiler.events import Position, Recording
from fullgraph.compiler.isolation import (
    JobOutcome,
    choose_process,
    preload_dynamic_shapes,
    preload_dynamo,
    run_isolated,
    snapshot,
)
from fullgraph.compiler.ladder import Backend
from fullgraph.compiler.observe.values import Observations, observe
from fullgraph.compiler.program import Loss, Program, parse_program
from fullgraph.compiler.sources import find_live_functions, index_live_functions
from fullgraph.diagnose.causes import grouping as causal
from fullgraph.diagnose.causes.recompiles import guard_notes
from fullgraph.diagnose.draft import Draft, nothing_compiled
from fullgraph.diagnose.explanation import Explanation, Note
from fullgraph.diagnose.report.notebook import live
from fullgraph.diagnose.trace import Trace, trace, traced
from fullgraph.diagnose.unmask import trial as trials
from fullgraph.diagnose.unmask.unmask import Round
from fullgraph.diagnose.unmask.unmask import unmask as look_behind

T = TypeVar("T")

ROUNDS, SECONDS = 12, 60.0
"""How far unmasking goes by default: rounds, and wall time."""


def explain(
    model: Callable[..., Any],
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    calls: Sequence[Any] = (),
    loss: Loss = None,
    backend: Backend = "eager",
    mode: str | None = None,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    unmask: bool = True,
    measure: bool = False,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    progress: Callable[[Explanation], object] | None = None,
) -> Explanation:
    """What keeps `model(inputs)` from being one graph, where, and what to try.

    Args:
        model: an nn.Module or a function; a compiled one is taken for what it was made of.
        inputs: a tensor, a tuple of positional arguments, or a dict of keyword arguments.
        kwargs: keyword arguments beside positional `inputs`.
        calls: further inputs after the first, each in the form of `inputs`: other shapes or
            values, which may recompile.
        loss: a callable on the output, or True for its sum: the backward runs too.
        backend: a registered backend's name or a callable; `fullgraph backends` lists them.
        mode, dynamic, options: as torch.compile takes them.
        unmask: whether to look for causes hidden behind others, for at most `rounds` rounds and
            `seconds` seconds.
        measure: whether to time eager against compiled, in this process.
        progress: called with every explanation on the way, the first as soon as it is known.
            In a notebook they are shown by default.

    The user's code runs in a forked child on CPU, else in this process with everything put back:
    parameters, buffers, gradients, attributes, inputs, RNG, caches. The number of runs is in the
    result. Raises FullgraphError for arguments that cannot be called; a model that raises gives
    an explanation with `error`.
    """
    subject = parse_program(
        model,
        inputs,
        kwargs=kwargs,
        calls=calls,
        loss=loss,
        backend=backend,
        mode=mode,
        dynamic=dynamic,
        options=options,
    )
    explanation = None
    progress = progress or live()
    steps = explanations(subject, unmask=unmask, measure=measure, rounds=rounds, seconds=seconds)
    for explanation in steps:
        if progress is not None:
            progress(explanation)
    assert explanation is not None
    return explanation


def explanations(
    subject: Program,
    *,
    unmask: bool = True,
    measure: bool = False,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
) -> Iterator[Explanation]:
    """Explanations of `subject` that know more and more; the last is `complete`."""
    with index_live_functions():
        work = _Work(subject)
        draft = work.draft
        yield draft.explanation()
        if draft.error is None and work.broken:
            if not draft.values.places:
                work.eager_values()
            work.second_mode()
            yield draft.explanation()
            if unmask:
                for _ in work.behind(rounds, seconds):
                    yield draft.explanation()
        if measure and draft.error is None:
            work.measure()
        draft.complete = True
        yield draft.explanation()


class _Work:
    """The steps of explaining one program, each of which tells the draft what it found."""

    def __init__(self, subject: Program) -> None:
        self.subject = subject
        self.where = _position(subject.target)
        self.unrestored: dict[str, None] = {}
        preload_dynamo()
        first = self._trace("default mode")
        self.draft = Draft(subject.name, subject.backend_name, self.where, first)
        self.draft.runs = {"default mode": 1}
        self.draft.output = first.output
        self.draft.notes += [
            Note("unknown", f"This torch does not tell {what}.") for what in first.recording.unknown
        ]
        self.draft.notes += guard_notes(subject, first)
        if fallback := nothing_compiled(subject.target, first, self.where):
            self.draft.fallbacks.append(fallback)
        if self.broken:  # searched for here, and not in each child
            find_live_functions(place.file for place in self._places)
        if first.raised or first.crash:
            self.eager_values()  # whose fault it is
        self._restored()

    @property
    def broken(self) -> bool:
        """Whether anything kept the program from being one graph."""
        default = self.draft.default
        return bool(
            default.recording.breaks
            or default.recording.failures
            or default.raised
            or default.crash
        )

    def second_mode(self) -> None:
        """Trace what `fullgraph=True` would meet, then settle it with a real call."""
        preload_dynamic_shapes()
        self.draft.capture = self._trace("fullgraph causes", capture=True)
        self.draft.fullgraph = self._trace("fullgraph=True", fullgraph=True)
        self._restored()

    def behind(self, rounds: int, seconds: float) -> Iterator[None]:
        """Look behind every cause, first in default mode, then with fullgraph's captures."""
        start = time.monotonic()
        yield from self._behind(self.draft.default, "default", rounds, seconds)
        left = seconds - (time.monotonic() - start)
        capture = self.draft.capture
        if capture is not None and not self.draft.whole and left > 0:
            yield from self._behind(capture, "fullgraph", rounds, left)
        self._restored()

    def measure(self) -> None:
        """Time eager against compiled, in this process."""
        from fullgraph.diagnose.cost import measure

        outcome = run_isolated(
            lambda emit: measure(self.subject), objects=self.subject.objects(), where="process"
        )
        self.unrestored |= dict.fromkeys(outcome.unrestored)
        self.draft.measurement = outcome.value
        if outcome.error is not None:
            why = f"{outcome.error.type}: {outcome.error.message}"
            self.draft.notes.append(Note("unknown", f"It could not be timed: {why}."))
        self._restored()

    def _behind(self, first: Trace, mode: str, rounds: int, seconds: float) -> Iterator[None]:
        last: Round | None = None
        blocked = []
        for last in look_behind(
            first.recording, self._perform(mode), rounds=rounds, seconds=seconds
        ):
            self.draft.hidden += [(hidden, mode) for hidden in last.found]
            if not last.forced:
                self.draft.see(last.values)
            self._count("unmasking", last.runs)
            blocked = list(last.blocked)
            yield
        if last is None:
            return
        if last.stopped in ("rounds", "seconds"):
            limit = f"{rounds} rounds" if last.stopped == "rounds" else f"{seconds:.0f} seconds"
            self.draft.notes.append(
                Note("unmask", f"Unmasking stopped after {limit}; more may hide ({mode} mode).")
            )
        for stop in blocked:
            note = Note("unmask", f"What lies behind is not known: {stop.reason}.", stop.place)
            if note not in self.draft.notes:
                self.draft.notes.append(note)

    def _perform(self, mode: str) -> Callable[[trials.Trial], trials.Outcome]:
        def job(trial: trials.Trial, in_process: bool) -> trials.Outcome:
            before = snapshot(self.subject.objects())
            again = trace(self.subject, capture=mode == "fullgraph", in_process=in_process)

            def trace_again() -> Recording:
                before.restore()
                return again(lambda event: None).recording

            return trials.perform(trial, lambda: self.subject.run(self.subject.target), trace_again)

        def perform(trial: trials.Trial) -> trials.Outcome:
            outcome = self._isolated(lambda emit, here: job(trial, here), trial.seconds)
            if outcome.value is not None:
                return outcome.value
            ended = outcome.signal or outcome.status
            if outcome.error is not None:
                ended = f"{outcome.error.type}: {outcome.error.message}".partition("\n")[0]
            return trials.Outcome(error=ended)

        return perform

    def _trace(self, purpose: str, **how: bool) -> Trace:
        if hasattr(self, "draft"):
            self._count(purpose, 1)
        return traced(
            self._isolated(lambda emit, here: trace(self.subject, in_process=here, **how)(emit))
        )

    def eager_values(self) -> None:
        """Run the code in eager: for the values at the causes, and to see whether it raises."""
        self._count("eager values", 1)
        outcome = self._isolated(
            lambda emit, here: observe(lambda: self.subject.run(self.subject.target), self._places)
        )
        self.draft.values = outcome.value or Observations()
        raised = self.draft.values.raised
        if outcome.status == "signal":
            self.draft.error = (
                f"{self.subject.name} dies in eager, without torch.compile, by {outcome.signal}."
            )
        elif raised:
            at = self.draft.default.raised
            where = at.position if at is not None else None
            line = f" at {where.file}:{where.line}" if where is not None else ""
            self.draft.error = (
                f"{self.subject.name} raises in eager, without torch.compile: {raised}{line}; "
                "mend that first, or give inputs that it accepts."
            )

    @functools.cached_property
    def _places(self) -> list[Position]:
        """Where the causes are that were met in default mode."""
        met = causal.groups(self.draft.default.recording, "default", self.where)
        return [group.place for group in met]

    def _isolated(
        self, job: Callable[[Callable[[object], None], bool], T], seconds: float | None = None
    ) -> JobOutcome[T]:
        where, _ = choose_process(self.subject.objects())
        outcome = run_isolated(
            lambda emit: job(emit, where == "process"),
            objects=self.subject.objects(),
            seconds=seconds,
            where=where,
        )
        self.unrestored |= dict.fromkeys(outcome.unrestored)
        return outcome

    def _count(self, purpose: str, runs: int) -> None:
        if runs:
            self.draft.runs[purpose] = self.draft.runs.get(purpose, 0) + runs

    def _restored(self) -> None:
        told = {note.message for note in self.draft.notes}
        self.draft.notes += [Note("restore", s) for s in self.unrestored if s not in told]


def explain_recording(recording: Recording, target: str, error: str | None = None) -> Explanation:
    """The explanation of a recording made while someone else's program ran."""
    draft = Draft(target, "as the script chose", None, Trace(recording, len(recording.events)))
    draft.error = error
    draft.complete = True
    draft.notes += [
        Note("unknown", f"This torch does not tell {what}.") for what in recording.unknown
    ]
    return draft.explanation()


def _position(target: Any) -> Position | None:
    function = target.forward if isinstance(target, torch.nn.Module) else target
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return Position(code.co_filename, code.co_firstlineno, function=code.co_name)
