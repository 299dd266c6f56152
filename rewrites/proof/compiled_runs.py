"""Runs of a program in eager and compiled, and how the two compare."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from fullgraph.compiler.isolation import Deadline, JobOutcome
from fullgraph.compiler.private import tree_leaves
from fullgraph.compiler.program import Program
from fullgraph.rewrites.proof.behaviour import Behaviour
from fullgraph.rewrites.proof.comparison import compare_behaviours
from fullgraph.rewrites.proof.live_state import override_program
from fullgraph.rewrites.proof.proof import Check, ProofInput
from fullgraph.rewrites.proof.recorded_runs import CHOSEN, run_inputs, run_proof_job
from fullgraph.rewrites.proof.run_cache import RecordedRun, RunCache

_NUMBER = re.compile(r"[\d.]+(?:e[+-]?\d+)?")
_BACKENDS = {
    "eager": ("compiled", "compiled,"),
    "aot_eager": ("AOTAutograd", "under AOTAutograd"),
    "inductor": ("inductor", "with Inductor"),
}
"""The title of each backend's check, and how its failure begins."""


@dataclass(frozen=True)
class CachedRuns:
    """Runs of a program until `deadline`; those that `cache` holds are not repeated.

    `special` is as `run_inputs` takes it. Every method raises `TimeUp` if the deadline ends a run.
    """

    subject: Program
    cache: RunCache
    deadline: Deadline
    special: bool = False

    def eager(
        self, texts: Mapping[str, str], cases: Sequence[ProofInput]
    ) -> JobOutcome[RecordedRun]:
        """Run the program with edited `texts` in eager on each of `cases`."""
        return self.cache.run_eager(
            texts, cases, self.special, lambda new: self._run(texts, new, None)
        )

    def compiled(
        self,
        texts: Mapping[str, str],
        cases: Sequence[ProofInput],
        backend: str,
        *,
        fullgraph: bool = False,
    ) -> JobOutcome[RecordedRun]:
        """Run the program with edited `texts`, compiled for `backend`, on `cases`."""
        name = f"{backend} with fullgraph=True" if fullgraph else backend
        return self.cache.run_compiled(
            texts, cases, self.special, name, lambda: self._run(texts, cases, backend, fullgraph)
        )

    def _run(
        self,
        texts: Mapping[str, str],
        cases: Sequence[ProofInput],
        backend: str | None,
        fullgraph: bool = False,
    ) -> JobOutcome[RecordedRun]:
        job = partial(run_inputs, self.subject, cases, self.special, backend, fullgraph=fullgraph)
        with override_program(self.subject.target, texts):
            return run_proof_job(self.subject, self.deadline, job, inductor=backend == "inductor")


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
    runs = CachedRuns(subject, cache, deadline)
    plain, trained = ProofInput(0, False), ProofInput(0, True)
    trains = _trains(subject) and torch.is_grad_enabled()
    if trains:  # unless it accepts no gradients
        original = runs.eager({}, [plain, trained]).value
        ran = original.behaviours if original is not None else {}
        trains = bool(ran) and ran[trained].raised == ran[plain].raised
    if whole:
        case = trained if trains else plain
        both = [runs.eager(version, [case]).value for version in ({}, as_compiled)]
        old, new = (one.behaviours if one is not None else {} for one in both)
        granted = {"randomness", "text", "records"} & {*exempt}
        needs = requires_gradient(subject)
        same = partial(compare_behaviours, numbers=numbers, requires_gradient=needs, exempt=granted)
        for check in same(old, new):
            if not check.ok:
                return check
    questions = [("aot_eager", trained if trains else plain)] if trains or not inductor else []
    questions += [("inductor", plain)] if inductor else []
    check, failure = Check("compiled", True), ""
    for backend, case in questions:
        found: list[Check] = []
        for version, in_eager in ((texts, as_compiled), ({}, {})):
            eager = runs.eager(in_eager, [case])
            if eager.value is None:
                return Check("eager", False, f"it does not run in eager: {failure_text(eager)}")
            done = runs.compiled(version, [case], backend)
            found.append(compare_compiled(backend, done, eager.value.behaviours, exempt))
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
    `texts` run in place of the files on disk; runs that `cache` holds are not repeated.
    Raises `TimeUp` if a run does not end before `deadline`.
    """
    texts, cache = texts or {}, cache or RunCache()
    runs = CachedRuns(subject, cache, deadline)
    given, again = ProofInput(0, False), ProofInput(0, False, again=True)
    few = [ProofInput(number, False) for number in range(CHOSEN if subject.eager_calls else 1)]
    eager = runs.eager(texts, [*few, *([] if subject.eager_calls else [again])])
    if eager.value is None:
        eager = runs.eager(texts, few)
    if eager.value is None:
        return Check("fullgraph", False, f"it does not run in eager: {failure_text(eager)}")
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
            compiled = runs.compiled(texts, [case], compiler, fullgraph=fullgraph)
            check = compare_compiled(compiler, compiled, behaviours, exempt)
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


def compare_compiled(
    backend: str,
    outcome: JobOutcome[RecordedRun],
    eager: Mapping[ProofInput, Behaviour],
    exempt: Collection[str] = (),
) -> Check:
    """Check that the compiled run `outcome` behaves as the run in eager, except for `exempt`."""
    title, how = _BACKENDS[backend]
    if outcome.value is None:
        return Check(title, False, f"{how} it does not run: {failure_text(outcome)}")
    few = {case: eager[case] for case in outcome.value.behaviours}
    for check in compare_behaviours(few, outcome.value.behaviours, exempt=exempt):
        if not check.ok and check.name != "logs and warnings":
            raised = [one.raised for one in outcome.value.behaviours.values() if one.raised]
            detail = f"{how} it behaves differently: {check.detail}"
            return Check(title, False, detail, raised="".join(raised[:1]))
    return Check(title, True)


def _trains(subject: Program) -> bool:
    """Return whether the program may be trained: it has a loss, or a module in training mode."""
    training = subject.module is not None and subject.module.training
    return training if subject.loss is None else subject.loss is not False


def requires_gradient(subject: Program) -> bool:
    """Return whether an input or a parameter of the user requires a gradient."""
    given = tree_leaves([(call.args, dict(call.kwargs)) for call in subject.calls])
    if isinstance(subject.target, torch.nn.Module):
        given += list(subject.target.parameters())
    return any(isinstance(one, torch.Tensor) and one.requires_grad for one in given)


def failure_text(outcome: JobOutcome[RecordedRun]) -> str:
    """Return why a run failed: its error or signal."""
    if outcome.error is not None:
        return f"{outcome.error.type}: {outcome.error.message}".partition("\n")[0]
    return str(outcome.signal or outcome.status)
