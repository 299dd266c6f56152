"""Runs of the original and of the new code, each recorded in an isolated process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import snapshot
from fullgraph.compiler.private import force_eager
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import ORIGINAL, FunctionEdit, edit_functions
from fullgraph.rewrites.proof.behaviour import Behaviour, freeze_clocks, record_behaviour
from fullgraph.rewrites.proof.comparison import ProofInput
from fullgraph.rewrites.proof.inputs import (
    change_buffers,
    copy_calls,
    double_batch,
    has_buffers,
    input_variants,
    perturb_calls,
    require_gradients,
)
from fullgraph.rewrites.proof.run_memo import RecordedRun

CHOSEN = 16
"""Minimum number of inputs to compare on, if time allows."""
_BUFFER_CHANGES = ((0.0, 0.0), (1.0, 100.0), (-1.0, 0.0))
"""Factors and summands for a module's buffers, to reach a branch which no input reaches."""


def explore_variants(
    subject: Program, tests: Sequence[Position], special: bool, deadline: float, strict: bool
) -> RecordedRun:
    """Run the original on the user's inputs, then on variants, until `deadline` at the latest.

    `special` adds NaN and inf. Unless `strict`, variants where an operator raises are skipped."""
    run = RecordedRun(sides={index: set() for index in range(len(tests))})
    before = snapshot(subject.objects())
    edits, tapes = _recording_edits(tests)
    shown: set[object] = set()
    start = time.monotonic()

    def record(case: ProofInput) -> Behaviour:
        """Record a case, restore the state, and add the conditions' values to `run.sides`."""
        for tape in tapes:
            tape.clear()
        behaviour = _record_case(subject, case, special, None)
        before.restore()
        for index, tape in enumerate(tapes):
            run.sides[index] |= tape
        return behaviour

    def is_settled() -> bool:
        """Return whether each condition was true on some input and false on another."""
        return all(len(sides) == 2 for sides in run.sides.values())

    with edit_functions(edits):
        for number, _ in enumerate(input_variants(subject.calls, special=special)):
            behaviour = record(ProofInput(number, False))
            if number and behaviour.crashed and not strict:
                continue
            kind = (tuple(map(frozenset, tapes)), behaviour.raised)
            if number < CHOSEN or kind not in shown or number % 4 == 1:
                shown.add(kind)
                run.behaviours[ProofInput(number, False)] = behaviour
                case = ProofInput(number, True)
                if torch.is_grad_enabled():
                    asked = _record_case(subject, case, special, None)
                    before.restore()
                    if asked.raised == behaviour.raised:  # else the program accepts no gradients
                        run.behaviours[case] = asked
            enough = len(run.behaviours) >= 3 * CHOSEN or (is_settled() and number > CHOSEN)
            share = 12 if is_settled() else 6  # the new code and the other proofs take as long
            if enough or time.monotonic() - start > max(2.0, (deadline - start) / share):
                break
        for change in _BUFFER_CHANGES if has_buffers(subject) else ():
            if is_settled():
                break
            case = ProofInput(0, False, buffers=change)
            run.behaviours[case] = record(case)
    return run


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
        run.behaviours[case] = _record_case(subject, case, special, backend, fullgraph=fullgraph)
        before.restore()
    return run


def _record_case(
    subject: Program,
    case: ProofInput,
    special: bool,
    backend: str | None,
    *,
    fullgraph: bool = False,
) -> Behaviour:
    """Record a run on the input variant `case`, compiled for `backend` or, if None, in eager."""
    first, calls = subject.calls[: subject.eager_calls], subject.calls[subject.eager_calls :]
    variants = input_variants(calls, special=special)
    calls = (*copy_calls(first), *next(itertools.islice(variants, case.number, None)))
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
                subject, subject.target, calls, backward=case.backward, seed=case.number
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


def _recording_edits(tests: Sequence[Position]) -> tuple[list[FunctionEdit], list[set[bool]]]:
    """Return edits that record the truth values of conditions, and the sets that collect them."""
    tapes: list[set[bool]] = [set() for _ in tests]
    edits = []
    for number, (test, tape) in enumerate(zip(tests, tapes, strict=True)):
        name = f"_fullgraph_side_{number}"
        edits.append(FunctionEdit(test, f"{name}({ORIGINAL})", {name: _record_condition(tape)}))
    return edits, tapes


def _record_condition(tape: set[bool]) -> Callable[[object], object]:
    """Return a function that adds the truth of its argument to `tape` and returns the argument."""

    def record_truth(value: object) -> object:
        """Record the truth values, and return the value."""
        if isinstance(value, torch.Tensor) and value.numel() != 1:
            tape.update(bool(side) for side in value.bool().flatten().unique())
        else:
            tape.add(bool(value))
        return value

    return record_truth
