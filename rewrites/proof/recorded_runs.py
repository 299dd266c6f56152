"""Runs of the original and of the new code, each recorded in an isolated process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import (
    Deadline,
    JobOutcome,
    TimeUp,
    choose_process,
    preload_inductor,
    run_isolated,
    snapshot,
)
from fullgraph.compiler.private import force_eager
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import edit_functions
from fullgraph.rewrites.proof.behaviour import Behaviour, freeze_clocks, record_behaviour
from fullgraph.rewrites.proof.conditions import ends_loop, record_conditions
from fullgraph.rewrites.proof.inputs import (
    change_buffers,
    copy_calls,
    double_batch,
    has_buffers,
    input_variants,
    perturb_calls,
    require_gradients,
)
from fullgraph.rewrites.proof.proof import ProofInput
from fullgraph.rewrites.proof.reach import reach, unpack
from fullgraph.rewrites.proof.run_cache import RecordedRun, Side
from fullgraph.rewrites.proof.wider import wider_calls

T = TypeVar("T")
CHOSEN = 16
"""Number of inputs to compare on at least, unless they take longer than `VARIANT_SECONDS`."""
CANDIDATES = 200
"""Maximum number of inputs that a search tries for one branch."""
VARIANT_SECONDS = 10.0, 20.0
"""CPU seconds after which no further variant runs: where all sides were seen, and where not."""
SEARCH_SECONDS = 20.0
"""CPU seconds for all searches of a proof."""
_BUFFER_CHANGES = ((0.0, 0.0), (1.0, 100.0), (-1.0, 0.0))
"""Factors and summands for a module's buffers, to reach a branch which no input reaches."""


class Explorer:
    """Runs the original on the user's inputs, on variants, and on inputs found by a search.

    `tests` are the conditions of which both branches are to be reached. `known` are the inputs that
    earlier searches found; None where one found nothing. `special` adds NaN and inf. Unless
    `strict`, inputs on which an operator raises are skipped.
    """

    def __init__(
        self,
        subject: Program,
        tests: Sequence[Position],
        known: Mapping[Side, bytes | None],
        special: bool,
        strict: bool,
    ) -> None:
        self._subject, self._tests, self._known = subject, tests, known
        self._special, self._strict = special, strict
        self._before = snapshot(subject.objects())
        self._edits, self._tapes = record_conditions(tests)
        exits = frozenset(n for n, test in enumerate(tests) if ends_loop(test))
        self._run = RecordedRun(exits=exits)

    def explore(self) -> RecordedRun:
        """Run the original until both branches of each condition ran, or all was tried.

        What is tried depends on CPU time, which a busy machine does not change.
        """
        with edit_functions(self._edits):
            self._run_variants()
            for change in _BUFFER_CHANGES if has_buffers(self._subject) else ():
                if not self._unseen():
                    break
                self._keep(ProofInput(0, False, buffers=change))
            self._search()
        return self._run

    def _run_variants(self) -> None:
        """Run the variants in order, and keep those that differ in what they reach."""
        start, shown = time.thread_time(), set[object]()
        for number, _ in enumerate(input_variants(self._subject.calls, special=self._special)):
            case = ProofInput(number, False)
            behaviour = self._record(case)
            if number and behaviour.crashed and not self._strict:
                continue
            kind = (tuple(frozenset(tape.values) for tape in self._tapes), behaviour.raised)
            if number < CHOSEN or kind not in shown or number % 4 == 1:
                shown.add(kind)
                self._keep(case, behaviour)
            settled = not self._unseen()
            enough = len(self._run.behaviours) >= 3 * CHOSEN or (settled and number > CHOSEN)
            if enough or time.thread_time() - start > VARIANT_SECONDS[not settled]:
                break

    def _search(self) -> None:
        """Search for inputs that take the branches that no variant took."""
        start = time.thread_time()

        def is_late() -> bool:
            return time.thread_time() - start > SEARCH_SECONDS

        for index, wanted in self._unseen():
            side = self._tests[index], wanted
            if side not in self._known:
                self._run.found[side] = None
            with suppress(Exception):  # a search that fails finds nothing
                for found in islice(self._candidates(index, wanted), CANDIDATES):
                    case = ProofInput(0, False, found=found)
                    behaviour = self._record(case)
                    if self._takes(index, wanted) and (self._strict or not behaviour.crashed):
                        self._keep(case, behaviour)
                        self._run.found[side] = found
                        break
                    if is_late():
                        return

    def _candidates(self, index: int, wanted: bool) -> Iterator[bytes]:
        """Yield the inputs that an earlier search found, else those of a new one."""
        side = self._tests[index], wanted
        if side in self._known:
            yield from filter(None, [self._known[side]])
            return
        tape, restore = self._tapes[index], self._before.restore
        is_reached = partial(self._takes, index, wanted)
        yield from reach(self._subject, tape, is_reached, restore, self._special)

    def _takes(self, index: int, wanted: bool) -> bool:
        """Return whether the condition had the wanted value in the run just made."""
        values = self._tapes[index].values
        return wanted in values and wanted in self._run.values_of(index, others=[values])

    def _unseen(self) -> list[tuple[int, bool]]:
        """Return each condition of which a side was not seen, by its index, with that side."""
        seen = [self._run.values_of(index) for index in range(len(self._tests))]
        return [
            (index, wanted)
            for index, values in enumerate(seen)
            for wanted in (True, False)
            if wanted not in values
        ]

    def _record(self, case: ProofInput) -> Behaviour:
        """Record a run, and restore the state."""
        for tape in self._tapes:
            tape.decisions.clear()
        try:
            return record_case(self._subject, case, self._special, None)
        finally:
            self._before.restore()

    def _keep(self, case: ProofInput, behaviour: Behaviour | None = None) -> None:
        """Keep a run, recorded if it was not yet, and the same with a backward."""
        first = behaviour or self._record(case)
        self._run.add(case, first, self._tapes)
        if torch.is_grad_enabled() and case.buffers is None:
            case = replace(case, backward=True)
            asked = self._record(case)
            if asked.raised == first.raised:  # else the program accepts no gradients
                self._run.add(case, asked, self._tapes)


def run_inputs(
    subject: Program,
    cases: Sequence[ProofInput],
    special: bool,
    backend: str | None,
    *,
    fullgraph: bool = False,
) -> RecordedRun:
    """Run the program on each of `cases`, compiled for `backend` or, if it is None, in eager."""
    run = RecordedRun()
    before = snapshot(subject.objects())
    for case in cases:
        run.behaviours[case] = record_case(subject, case, special, backend, fullgraph=fullgraph)
        before.restore()
    return run


def run_proof_job(
    subject: Program, deadline: Deadline, job: Callable[[], T], *, inductor: bool = False
) -> JobOutcome[T]:
    """Run a job of the proof in isolation; raise `TimeUp` if it does not end before `deadline`."""
    if deadline.is_over:
        raise TimeUp
    objects = subject.objects()
    where, _ = choose_process(objects)
    folder = None
    if inductor and where == "fork":
        with suppress(Exception):  # the child raises it again, and reports it
            folder = preload_inductor()
    outcome = run_isolated(
        lambda emit: job(), objects=objects, seconds=deadline.left(), where=where, cache=folder
    )
    if outcome.status == "timeout":
        raise TimeUp
    return outcome


def record_case(
    subject: Program,
    case: ProofInput,
    special: bool,
    backend: str | None,
    *,
    fullgraph: bool = False,
) -> Behaviour:
    """Record a run on the input variant `case`, compiled for `backend` or, if None, in eager."""
    first, calls = subject.calls[: subject.eager_calls], subject.calls[subject.eager_calls :]
    if case.wider:
        new = copy_calls(next(islice(wider_calls(subject), case.number, None)).calls)
    else:
        new = next(islice(input_variants(calls, special=special), case.number, None))
    calls = (*copy_calls(first), *new)
    if case.found:
        unpack(subject, calls[len(first) :], case.found)
    if case.perturbed:
        calls = perturb_calls(calls)
    if case.buffers is not None:
        change_buffers(subject, *case.buffers)
    if case.again:
        calls = (*calls, *double_batch(calls))
    if case.backward:
        require_gradients(calls)
    if backend is None:
        with force_eager(), freeze_clocks():
            return record_behaviour(
                subject,
                subject.target,
                calls,
                backward=case.backward,
                seed=case.number,
                watched=case.wider,
            )
    options: dict[str, Any] | None = {"fallback_random": True} if backend == "inductor" else None
    compiled = torch.compile(
        subject.target,
        backend=backend,
        dynamic=subject.dynamic,
        options=options,
        fullgraph=fullgraph,
    )
    function = subject.after_eager_calls(compiled)
    return record_behaviour(subject, function, calls, backward=case.backward, seed=case.number)
