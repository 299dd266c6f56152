"""Proof that rewritten code behaves as the original does, in eager and compiled."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import Deadline, JobOutcome
from fullgraph.compiler.private import tree_leaves
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import read_source
from fullgraph.rewrites.proof.behaviour import Behaviour
from fullgraph.rewrites.proof.comparison import (
    FINITE_ORIGINAL,
    OTHER_MESSAGE,
    compare_behaviours,
    is_finite,
)
from fullgraph.rewrites.proof.fake_kernels import find_wrong_fake, new_operators
from fullgraph.rewrites.proof.forced import force_branches
from fullgraph.rewrites.proof.live_state import override_program
from fullgraph.rewrites.proof.proof import (
    Branches,
    Check,
    Proof,
    ProofInput,
    ProofState,
    Seen,
    clauses_of,
)
from fullgraph.rewrites.proof.recorded_runs import CHOSEN, Explorer, run_inputs, run_proof_job
from fullgraph.rewrites.proof.run_cache import RecordedRun, RunCache, Side
from fullgraph.rewrites.proof.wider import wider_calls
from fullgraph.rewrites.proof.wider_checks import SEEN_BEFORE, check_left, check_wider, wider_cases

COMPILED = 3
"""Maximum number of these inputs on which compiled code runs, too."""
_NUMBER = re.compile(r"[\d.]+(?:e[+-]?\d+)?")
_BACKENDS = {
    "eager": ("compiled", "compiled,"),
    "aot_eager": ("AOTAutograd", "under AOTAutograd"),
    "inductor": ("inductor", "with Inductor"),
}
"""The title of each backend's check, and how its failure begins."""
SPECIAL = ("nan", "inf", "finite", "assert", "raise")
"""Words in a condition, or in what an edit changes, for which inputs have NaN and infinities."""


def prove(
    subject: Program,
    texts: Mapping[str, str],
    *,
    base: Mapping[str, str] | None = None,
    as_compiled: Mapping[str, str] | None = None,
    tests: Sequence[Position] = (),
    deadline: Deadline | None = None,
    numbers: bool = False,
    strict: bool = True,
    exempt: Collection[str] = (),
    both: Collection[Position] = (),
    cache: RunCache | None = None,
) -> Proof:
    """Prove that the program behaves with edited `texts` (by file) as with those of `base`.

    Files that either lacks are as on disk. Both run in eager, isolated, on the user's inputs and on
    variants that reach both branches of the conditions `tests` (positions in `base`), with and
    without a backward. Outputs, gradients, state, exceptions, printed text, log records, warnings
    and random numbers are compared. Then the new code runs under torch.compile, and is compared
    with its own eager run; the fake kernels of new operators are compared with the operators. With
    `numbers`, a 0-d tensor may replace a scalar. In eager `as_compiled`, if given, runs in place of
    `texts`: `texts` as compiled code runs them. Unless `strict`, variants on which an operator of
    the original raises are skipped. `exempt` holds what may change (`Rewrite.exempts`). The proof
    fails unless each test in `both` was true and false. Runs that `cache` holds are not repeated.
    Raises `TimeUp` if a run does not end before `deadline`.
    """
    base, cache, deadline = base or {}, cache or RunCache(), deadline or Deadline()
    with override_program(subject.target, base):
        titles = [_condition_text(test) for test in tests]
        lines = (*titles, *_changed_lines(base, texts))
        special = any(word in line for word in SPECIAL for line in lines)

        def explore(known: Mapping[Side, bytes | None]) -> JobOutcome[RecordedRun]:
            explorer = partial(Explorer, subject, tests, known, special, strict)
            return run_proof_job(subject, deadline, lambda: explorer().explore())

        old = cache.explore(base, tests, (special, strict), explore)
    if old.value is None:
        return _failed_proof("eager", f"the original did not run: {_failure_text(old)}")
    cases = list(old.value.behaviours)
    branches = [_branches(title, old.value, n, cases) for n, title in enumerate(titles)]
    if dropped := _find_unseen(tests, branches, both):
        return _failed_proof("branches", dropped)
    eager_texts = as_compiled or texts
    run_eager = partial(_run_eager, subject, cache, special, deadline)
    with override_program(subject.target, eager_texts) as overlay:
        if overlay.refused:
            return _failed_proof("overlay", overlay.refused[0])
    new = run_eager(eager_texts, cases)
    if new.value is None:
        return _failed_proof("eager", f"the new code did not run: {_failure_text(new)}")
    ran = old.value.behaviours, new.value.behaviours
    perturbed = functools.cache(lambda case: _run_perturbed(subject, base, special, deadline, case))
    compare = partial(
        compare_behaviours,
        numbers=numbers,
        requires_gradient=_requires_gradient(subject),
        exempt=({"randomness", "text", "records"} if as_compiled else {"randomness"}) & set(exempt),
    )
    checks = compare(*ran, perturbed=perturbed)
    names = new_operators(base, texts)
    if names and all(check.ok for check in checks):
        with override_program(subject.target, eager_texts):
            checks.append(_check_fake_kernels(subject, deadline, names, cases, special))
    wide: list[RecordedRun | None] = []
    if all(check.ok for check in checks):
        granted = frozenset({*clauses_of(checks), OTHER_MESSAGE})
        others = [replace(one, calls=()) for one in wider_calls(subject)]
        wide += (run_eager(version, wider_cases(others)).value for version in (base, eager_texts))
        checks.append(
            check_wider(others, wide, ran, partial(compare, perturbed=perturbed), granted)
        )
    few = sorted((one for one in cases if not one.backward), key=lambda one: not one.found)
    few = [cases[0], *(one for one in few if one != cases[0])][:COMPILED]
    if all(check.ok for check in checks):
        done = _run_compiled(subject, cache, special, deadline, texts, few, "eager")
        checks.append(_check_compiled("eager", done, new.value.behaviours, exempt))
    if all(check.ok for check in checks):
        same = partial(compare_behaviours, numbers=numbers, exempt={*exempt, *SEEN_BEFORE})
        checks.append(check_left(subject, (base, texts), wide[0], cache, deadline, same))
    ok = all(check.ok for check in checks)
    assumes = clauses_of(checks)
    if FINITE_ORIGINAL in assumes:  # only those were compared
        cases = [case for case in cases if is_finite(old.value.behaviours[case])]
    branches = [_branches(title, old.value, n, cases) for n, title in enumerate(titles)]
    if dropped := _find_unseen(tests, branches, both):
        return _failed_proof("branches", dropped)
    if ok and not all(one.are_known for one in branches):
        both_texts = base, eager_texts
        branches = force_branches(subject, both_texts, tests, branches, special, deadline, compare)
    known = all(one.are_known for one in branches)
    state = ProofState.FAILED if not ok else ProofState.PROVED if known else ProofState.ONE_SIDE
    tried = len({replace(case, backward=False) for case in cases})
    return Proof(state, tuple(checks), tried, tuple(branches), assumes if ok else ())


def _branches(
    condition: str, run: RecordedRun, index: int, cases: Iterable[ProofInput]
) -> Branches:
    """Return which sides of a condition the inputs `cases` took."""
    taken = run.values_of(index, cases)
    given = run.values_of(index, [case for case in cases if not case.found])
    true, false = (
        Seen.SEEN if side in given else Seen.REACHED if side in taken else Seen.UNSEEN
        for side in (True, False)
    )
    return Branches(condition, true, false)


def _find_unseen(
    tests: Sequence[Position], branches: Sequence[Branches], both: Collection[Position]
) -> str:
    """Return which sides of the conditions `both` no input took; "" if all were taken."""
    pairs = zip(tests, branches, strict=True)
    return "; ".join(str(one) for test, one in pairs if test in both and not one.are_known)


def _run_eager(
    subject: Program,
    cache: RunCache,
    special: bool,
    deadline: Deadline,
    texts: Mapping[str, str],
    cases: Sequence[ProofInput],
) -> JobOutcome[RecordedRun]:
    """Run the program with `texts` in eager on those of `cases` that `cache` does not hold."""

    def run(new: Sequence[ProofInput]) -> JobOutcome[RecordedRun]:
        job = partial(run_inputs, subject, new, special, None)
        return run_proof_job(subject, deadline, job)

    with override_program(subject.target, texts):
        return cache.run_eager(texts, cases, special, run)


def _run_compiled(
    subject: Program,
    cache: RunCache,
    special: bool,
    deadline: Deadline,
    texts: Mapping[str, str],
    cases: Sequence[ProofInput],
    backend: str,
) -> JobOutcome[RecordedRun]:
    """Run the program with `texts`, compiled for `backend`, on `cases` unless `cache` holds it."""

    def run() -> JobOutcome[RecordedRun]:
        job = partial(run_inputs, subject, cases, special, backend)
        return run_proof_job(subject, deadline, job, inductor=backend == "inductor")

    with override_program(subject.target, texts):
        return cache.run_compiled(texts, cases, special, backend, run)


def check_compiled(
    subject: Program,
    texts: Mapping[str, str],
    *,
    as_compiled: Mapping[str, str],
    inductor: bool,
    whole: bool = False,
    numbers: bool = False,
    exempt: Collection[str] = (),
    deadline: Deadline,
    cache: RunCache,
) -> Check:
    """Check that edited `texts` behave compiled as they do in eager.

    They run under AOTAutograd, with a backward if the program trains, and with `inductor` under
    Inductor. In eager `as_compiled` runs in their place; with `whole` it is compared with the
    original, and with `numbers` a 0-d tensor may replace a scalar. If the original fails alike, the
    check holds, and its detail is the failure. Raises `TimeUp` if a run does not end before
    `deadline`.
    """
    trains = _trains(subject) and torch.is_grad_enabled()
    questions = [("aot_eager", trains)] if trains or not inductor else []
    case = ProofInput(0, trains)
    if whole:
        ran = [_run_eager(subject, cache, False, deadline, t, [case]) for t in ({}, as_compiled)]
        old, new = (one.value.behaviours if one.value is not None else {} for one in ran)
        granted = {"randomness", "text", "records"} & {*exempt}
        needs = _requires_gradient(subject)
        same = partial(compare_behaviours, numbers=numbers, requires_gradient=needs, exempt=granted)
        for check in same(old, new):
            if not check.ok:
                return check
    check, failure = Check("compiled", True), ""
    for backend, backward in (*questions, *([("inductor", False)] if inductor else [])):
        found: list[Check] = []
        for version, plain in ((texts, as_compiled), ({}, {})):
            case = ProofInput(0, backward)
            eager = _run_eager(subject, cache, False, deadline, plain, [case])
            if eager.value is None:
                return Check("eager", False, f"it does not run in eager: {_failure_text(eager)}")
            done = _run_compiled(subject, cache, False, deadline, version, [case], backend)
            found.append(_check_compiled(backend, done, eager.value.behaviours, exempt))
            if found[0].ok:
                break
        check = found[0]
        if not check.ok and not _share_failure(*found):
            return check
        failure = failure or check.detail
    return replace(check, ok=True, detail=failure)


def verify_inductor(
    subject: Program,
    deadline: Deadline,
    *,
    fullgraph: bool = True,
    exempt: Collection[str] = (),
    original: Program | None = None,
    backend: str = "inductor",
    texts: Mapping[str, str] | None = None,
    cache: RunCache | None = None,
) -> Check:
    """Check that `torch.compile(fullgraph=fullgraph)` with Inductor behaves as eager does.

    The program runs on the user's inputs; if eager accepts inputs of twice the batch size, it runs
    on those after them, too, under AOTAutograd. If `subject` is a variant of `original`, with 0-d
    tensors for numbers or more calls at the start, both must give equal results in eager. Edited
    `texts` run in place of the files on disk; runs in eager that `cache` holds are not repeated.
    Raises `TimeUp` if a run does not end before `deadline`.
    """
    texts, cache = texts or {}, cache or RunCache()
    run_eager = partial(_run_eager, subject, cache, False, deadline, texts)
    given, again = ProofInput(0, False), ProofInput(0, False, again=True)
    few = [ProofInput(number, False) for number in range(CHOSEN if subject.eager_calls else 1)]
    eager = run_eager([*few, *([] if subject.eager_calls else [again])])
    if eager.value is None:
        eager = run_eager(few)
    if eager.value is None:
        return Check("fullgraph", False, f"it does not run in eager: {_failure_text(eager)}")
    behaviours = eager.value.behaviours
    if original is not None:
        job = partial(run_inputs, original, few, False, None)
        with override_program(subject.target, texts):
            plain = run_proof_job(original, deadline, job)
        known = plain.value.behaviours if plain.value is not None else {}
        check = _compare_results(known, behaviours, subject.eager_calls)
        if not check.ok:
            return Check("eager", False, f"with it eager behaves differently: {check.detail}")
    larger = again in behaviours and behaviours[again].raised is None
    check = Check(backend, True)
    cheaper = "aot_eager" if backend == "inductor" else backend
    for compiler, case in ((cheaper, again), (backend, given)):
        if check.ok and (case is given or larger):
            job = partial(run_inputs, subject, [case], False, compiler, fullgraph=fullgraph)
            with override_program(subject.target, texts):
                compiled = run_proof_job(subject, deadline, job, inductor=compiler == "inductor")
            check = _check_compiled(compiler, compiled, behaviours, exempt)
    return check


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


def _share_failure(one: Check, other: Check) -> bool:
    """Return whether two checks failed alike; numbers in their details may differ."""
    failures = (_NUMBER.sub("", check.detail.partition(" (on ")[0]) for check in (one, other))
    return not one.ok and not other.ok and len(set(failures)) == 1


def _run_perturbed(
    subject: Program, base: Mapping[str, str], special: bool, deadline: Deadline, case: ProofInput
) -> Behaviour | None:
    """Return what the original does on inputs perturbed by one ulp; None if the run failed."""
    near = replace(case, perturbed=True)
    with override_program(subject.target, base):
        ran = run_proof_job(subject, deadline, lambda: run_inputs(subject, [near], special, None))
    return ran.value.behaviours[near] if ran.value is not None else None


def _check_compiled(
    backend: str,
    outcome: JobOutcome[RecordedRun],
    eager: Mapping[ProofInput, Behaviour],
    exempt: Collection[str] = (),
) -> Check:
    """Check that the compiled run `outcome` behaves as the run in eager, except for `exempt`."""
    title, how = _BACKENDS[backend]
    if outcome.value is None:
        return Check(title, False, f"{how} it does not run: {_failure_text(outcome)}")
    few = {case: eager[case] for case in outcome.value.behaviours}
    for check in compare_behaviours(few, outcome.value.behaviours, exempt=exempt):
        if not check.ok and check.name != "logs and warnings":
            raised = [one.raised for one in outcome.value.behaviours.values() if one.raised]
            detail = f"{how} it behaves differently: {check.detail}"
            return Check(title, False, detail, raised="".join(raised[:1]))
    return Check(title, True)


def _check_fake_kernels(
    subject: Program,
    deadline: Deadline,
    names: Collection[str],
    cases: Sequence[ProofInput],
    special: bool,
) -> Check:
    """Check that the fake kernels of the operators `names` give what the operators give."""
    job = partial(find_wrong_fake, subject, names, cases, special)
    outcome = run_proof_job(subject, deadline, job)
    detail = f"the fake kernels could not be checked: {outcome.status}"
    if outcome.value is not None:
        detail = outcome.value
    return Check("fake kernels", not detail, detail)


def _trains(subject: Program) -> bool:
    """Return whether the program may be trained: it has a loss, or a module in training mode."""
    training = subject.module is not None and subject.module.training
    return training if subject.loss is None else subject.loss is not False


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


def _failure_text(outcome: JobOutcome[RecordedRun]) -> str:
    """Return why a run failed: its error or signal."""
    if outcome.error is not None:
        return f"{outcome.error.type}: {outcome.error.message}".partition("\n")[0]
    return str(outcome.signal or outcome.status)


def _failed_proof(title: str, detail: str) -> Proof:
    return Proof(ProofState.FAILED, (Check(title, False, detail),))
