"""Proof that rewritten code behaves as the original does, in eager and compiled."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import (
    JobOutcome,
    choose_process,
    preload_inductor,
    run_isolated,
    snapshot,
)
from fullgraph.compiler.private import force_eager, tree_leaves
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import (
    ORIGINAL,
    FunctionEdit,
    edit_functions,
    read_source,
)
from fullgraph.rewrites.proof.behaviour import Behaviour, freeze_clocks, record_behaviour
from fullgraph.rewrites.proof.comparison import ProofInput, compare_behaviours
from fullgraph.rewrites.proof.inputs import (
    change_buffers,
    copy_calls,
    double_batch,
    has_float_buffers,
    input_variants,
    perturb_calls,
    require_gradients,
)
from fullgraph.rewrites.proof.live_state import override_program
from fullgraph.rewrites.proof.proof import Check, Proof, ProofState
from fullgraph.rewrites.proof.run_memo import RecordedRun, RunMemo

CHOSEN = 16
"""Minimum number of inputs to compare on, if time allows."""
COMPILED = 3
"""Maximum number of these inputs on which compiled code runs, too."""
_BUFFER_CHANGES = ((0.0, 0.0), (1.0, 100.0), (-1.0, 0.0))
"""Factors and summands for a module's buffers, to reach a branch which no input reaches."""
_NUMBER = re.compile(r"[\d.]+(?:e[+-]?\d+)?")
_SPECIAL = ("nan", "inf", "finite", "assert", "raise")


def prove(
    subject: Program,
    texts: Mapping[str, str],
    *,
    base: Mapping[str, str] | None = None,
    tests: Sequence[Position] = (),
    seconds: float = 120.0,
    inductor: bool = False,
    numbers: bool = False,
    strict: bool = True,
    exempt: Collection[str] = (),
    both: bool = False,
    memo: RunMemo | None = None,
) -> Proof:
    """Prove that the program behaves with edited `texts` (by file) as with those of `base`.

    Files that either lacks are as on disk. Both run in eager, isolated, on the user's inputs and on
    variants that reach both branches of the conditions `tests` (positions in `base`), with and
    without a backward. Outputs, gradients, state, exceptions, printed text, log records, warnings
    and random numbers are compared. Then the new code runs under torch.compile, with `inductor`
    under Inductor too, and is compared with its own eager run. With `numbers`, a 0-d tensor may
    replace a scalar. Unless `strict`, variants on which an operator of the original raises are
    skipped. `exempt` holds what may change (`Rewrite.exempts`). With `both`, the proof fails unless
    both branches were reached. Runs that `memo` holds are not repeated.
    """
    base, memo = base or {}, memo or RunMemo()
    limit = time.monotonic() + seconds

    def left() -> float:
        return max(1.0, limit - time.monotonic())

    with override_program(subject.target, base):
        titles = [_condition_text(test) for test in tests]
        lines = (*titles, *_changed_lines(base, texts))
        special = any(word in line for word in _SPECIAL for line in lines)
        explore = partial(_explore_variants, subject, tests, special, limit, strict)
        run = partial(_run_proof_job, subject, left(), explore)
        old = memo.explore(base, tests, (special, strict), run)
    if old.value is None:
        return _failed_proof("eager", f"the original did not run: {_failure_text(old)}")
    cases = list(old.value.behaviours)
    sides = tuple(
        (title, _values_seen(old.value.sides.get(n, set()))) for n, title in enumerate(titles)
    )
    unseen = [f"`{title}` was {side}" for title, side in sides if side != "both"]
    if both and unseen:
        return _failed_proof("branches", f"{unseen[0]} on every input tried")
    with override_program(subject.target, texts) as overlay:
        if overlay.refused:
            return _failed_proof("overlay", overlay.refused[0])
        new = memo.run_eager(
            texts,
            cases,
            special,
            lambda new: _run_proof_job(
                subject, left(), partial(_run_inputs, subject, new, special, None)
            ),
        )
        if new.value is None:
            return _failed_proof("eager", f"the new code did not run: {_failure_text(new)}")
    ran = old.value.behaviours, new.value.behaviours
    perturbed = cache(lambda case: _run_perturbed(subject, base, special, left(), case))
    checks = compare_behaviours(
        *ran,
        numbers=numbers,
        requires_gradient=_requires_gradient(subject),
        perturbed=perturbed,
        exempt={"randomness"} & set(exempt),
    )
    few = [case for case in cases if not case.backward][:COMPILED]
    for backend, some in (("eager", few), ("inductor", few[:1] if inductor else [])):
        if some and all(check.ok for check in checks):
            job = partial(_run_inputs, subject, some, special, backend)
            on_inductor = backend == "inductor"
            run = partial(_run_proof_job, subject, left(), job, inductor=on_inductor)
            with override_program(subject.target, texts):
                done = memo.run_compiled(texts, some, special, backend, run)
            checks.append(_check_compiled(backend, done, new.value.behaviours, exempt))
    ok = all(check.ok for check in checks)
    assumes = tuple(dict.fromkeys(clause for check in checks for clause in check.assumes))
    state = ProofState.FAILED if not ok else ProofState.ONE_SIDE if unseen else ProofState.PROVED
    tried = len({case.number for case in cases})
    return Proof(state, tuple(checks), tried, sides, assumes if ok else ())


def verify_inductor(
    subject: Program,
    seconds: float = 120.0,
    *,
    fullgraph: bool = True,
    exempt: Collection[str] = (),
    original: Program | None = None,
    backend: str = "inductor",
) -> Check:
    """Check that `torch.compile(fullgraph=fullgraph)` with Inductor behaves as eager does.

    The program runs on the user's inputs, then on inputs of twice the batch size if eager accepts
    those, each time isolated for at most `seconds`. If `subject` is a variant of `original`, with
    0-d tensors for numbers or more calls at the start, both must give equal results in eager.
    """
    cases = [ProofInput(0, False, again=True)]
    if subject.eager_calls:
        cases = [ProofInput(number, False) for number in range(CHOSEN)]
    eager = _run_proof_job(subject, seconds, partial(_run_inputs, subject, cases, False, None))
    if eager.value is None or eager.value.behaviours[cases[0]].raised is not None:
        cases = [ProofInput(0, False)]
        eager = _run_proof_job(subject, seconds, partial(_run_inputs, subject, cases, False, None))
    if eager.value is None:
        return Check("fullgraph", False, f"it does not run in eager: {_failure_text(eager)}")
    if original is not None:
        job = partial(_run_inputs, original, cases, False, None)
        plain = _run_proof_job(original, seconds, job)
        known = plain.value.behaviours if plain.value is not None else {}
        check = _compare_results(known, eager.value.behaviours, subject.eager_calls)
        if not check.ok:
            return Check("eager", False, f"with it eager behaves differently: {check.detail}")
    job = partial(_run_inputs, subject, cases[:1], False, backend, fullgraph=fullgraph)
    compiled = _run_proof_job(subject, seconds, job, inductor=backend == "inductor")
    return _check_compiled(backend, compiled, eager.value.behaviours, exempt)


def _compare_results(
    old: Mapping[ProofInput, Behaviour], new: Mapping[ProofInput, Behaviour], extra: int
) -> Check:
    """Check that behaviours agree; of `new`, the first `extra` calls are left out."""
    if not extra:
        checks = compare_behaviours(old, new, numbers=True)
        return next((check for check in checks if not check.ok), checks[0])
    later = {
        case: replace(one, outputs=one.outputs[extra:]) if isinstance(one.outputs, list) else one
        for case, one in new.items()
    }
    return next(check for check in compare_behaviours(old, later) if check.name == "outputs")


def share_failure(one: Check, other: Check) -> bool:
    """Return whether two checks failed alike; numbers in their details may differ."""
    failures = (_NUMBER.sub("", check.detail.partition(" (on ")[0]) for check in (one, other))
    return not one.ok and not other.ok and len(set(failures)) == 1


# Runs in the isolated child.


def _explore_variants(
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
        for change in _BUFFER_CHANGES if has_float_buffers(subject) else ():
            if is_settled():
                break
            case = ProofInput(0, False, buffers=change)
            run.behaviours[case] = record(case)
    return run


def _run_inputs(
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


# Runs in the parent.


def _run_proof_job(
    subject: Program, seconds: float, job: Callable[[], RecordedRun], *, inductor: bool = False
) -> JobOutcome[RecordedRun]:
    """Run a job of the proof in isolation, for at most `seconds`."""
    objects = subject.objects()
    where, _ = choose_process(objects)
    folder = None
    if inductor and where == "fork":
        with suppress(Exception):  # the child raises it again, and reports it
            folder = preload_inductor()
    return run_isolated(
        lambda emit: job(), objects=objects, seconds=seconds, where=where, cache=folder
    )


def _run_perturbed(
    subject: Program, base: Mapping[str, str], special: bool, seconds: float, case: ProofInput
) -> Behaviour | None:
    """Return what the original does on inputs perturbed by one ulp; None if the run failed."""
    near = replace(case, perturbed=True)
    with override_program(subject.target, base):
        ran = _run_proof_job(subject, seconds, lambda: _run_inputs(subject, [near], special, None))
    return ran.value.behaviours[near] if ran.value is not None else None


def _check_compiled(
    backend: str,
    outcome: JobOutcome[RecordedRun],
    eager: Mapping[ProofInput, Behaviour],
    exempt: Collection[str] = (),
) -> Check:
    """Check that the compiled run `outcome` behaves as the run in eager, except for `exempt`."""
    title = "inductor" if backend == "inductor" else "compiled"
    how = "with Inductor" if backend == "inductor" else "compiled,"
    if outcome.value is None:
        return Check(title, False, f"{how} it does not run: {_failure_text(outcome)}")
    few = {case: eager[case] for case in outcome.value.behaviours}
    for check in compare_behaviours(few, outcome.value.behaviours, exempt=exempt):
        if not check.ok and check.name != "logs and warnings":
            return Check(title, False, f"{how} it behaves differently: {check.detail}")
    return Check(title, True)


def _requires_gradient(subject: Program) -> bool:
    """Return whether an input or a parameter of the user requires a gradient."""
    given = tree_leaves([(call.args, dict(call.kwargs)) for call in subject.calls])
    if isinstance(subject.target, torch.nn.Module):
        given += list(subject.target.parameters())
    return any(isinstance(one, torch.Tensor) and one.requires_grad for one in given)


def _changed_lines(base: Mapping[str, str], texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that only one of the two versions of a file has."""
    for file, text in texts.items():
        source = read_source(file)
        old = base.get(file) or (source.text if source else "")
        yield from set(old.splitlines()) ^ set(text.splitlines())


def _condition_text(test: Position) -> str:
    """Return the source of a condition."""
    source = read_source(test.file)
    node = source.node(test) if source else None
    return source.segment(node) if source and node else ""


def _values_seen(seen: set[bool]) -> str:
    return {0: "never evaluated", 2: "both"}.get(len(seen), f"{next(iter(seen), None)}".lower())


def _failure_text(outcome: JobOutcome[RecordedRun]) -> str:
    """Return why a run failed: its error, signal or limit."""
    if outcome.error is not None:
        return f"{outcome.error.type}: {outcome.error.message}".partition("\n")[0]
    return str(outcome.signal or outcome.status)


def _failed_proof(title: str, detail: str) -> Proof:
    return Proof(ProofState.FAILED, (Check(title, False, detail),))
