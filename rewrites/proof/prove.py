"""Proof that rewritten code behaves as the original does, in eager and compiled."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import Deadline, JobOutcome
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import read_source
from fullgraph.rewrites.proof.behaviour import Behaviour
from fullgraph.rewrites.proof.comparison import (
    FINITE_ORIGINAL,
    OTHER_MESSAGE,
    compare_behaviours,
    is_finite,
)
from fullgraph.rewrites.proof.compiled_runs import (
    CachedRuns,
    compare_compiled,
    failure_text,
    requires_gradient,
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
from fullgraph.rewrites.proof.recorded_runs import Explorer, run_proof_job
from fullgraph.rewrites.proof.run_cache import RecordedRun, RunCache, Side
from fullgraph.rewrites.proof.wider import wider_calls
from fullgraph.rewrites.proof.wider_checks import SEEN_BEFORE, check_left, check_wider, wider_cases

COMPILED = 3
"""Maximum number of these inputs on which compiled code runs, too."""
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
        return _failed_proof("eager", f"the original did not run: {failure_text(old)}")
    cases = list(old.value.behaviours)
    branches = [_branches(title, old.value, n, cases) for n, title in enumerate(titles)]
    if dropped := _find_unseen(tests, branches, both):
        return _failed_proof("branches", dropped)
    eager_texts = as_compiled or texts
    runs = CachedRuns(subject, cache, deadline, special)
    with override_program(subject.target, eager_texts) as overlay:
        if overlay.refused:
            return _failed_proof("overlay", overlay.refused[0])
    new = runs.eager(eager_texts, cases)
    if new.value is None:
        return _failed_proof("eager", f"the new code did not run: {failure_text(new)}")
    ran = old.value.behaviours, new.value.behaviours
    perturbed = functools.cache(lambda case: _run_perturbed(runs, base, case))
    compare = partial(
        compare_behaviours,
        numbers=numbers,
        requires_gradient=requires_gradient(subject),
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
        wide += (runs.eager(version, wider_cases(others)).value for version in (base, eager_texts))
        checks.append(
            check_wider(others, wide, ran, partial(compare, perturbed=perturbed), granted)
        )
    few = sorted((one for one in cases if not one.backward), key=lambda one: not one.found)
    few = [cases[0], *(one for one in few if one != cases[0])][:COMPILED]
    if all(check.ok for check in checks):
        done = runs.compiled(texts, few, "eager")
        checks.append(compare_compiled("eager", done, new.value.behaviours, exempt))
    if all(check.ok for check in checks):
        same = partial(compare_behaviours, numbers=numbers, exempt={*exempt, *SEEN_BEFORE})
        checks.append(check_left(replace(runs, special=False), (base, texts), wide[0], same))
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


def _run_perturbed(runs: CachedRuns, base: Mapping[str, str], case: ProofInput) -> Behaviour | None:
    """Return what the original does on inputs perturbed by one ulp; None if the run failed."""
    near = replace(case, perturbed=True)
    ran = runs.eager(base, [near])
    return ran.value.behaviours[near] if ran.value is not None else None


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


def _failed_proof(title: str, detail: str) -> Proof:
    return Proof(ProofState.FAILED, (Check(title, False, detail),))
