"""`fix`: explanation, offers, proofs, accepted edits, fixes."""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import torch

from fullgraph.compiler.display import progress_line
from fullgraph.compiler.ladder import Backend
from fullgraph.compiler.private import patch_config
from fullgraph.compiler.program import Loss, Program, parse_program
from fullgraph.compiler.sources import index_live_functions
from fullgraph.diagnose.explain import explanations
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.fix.captured_indices import search_index_edits
from fullgraph.rewrites.fix.causes import CauseKey, staying_causes
from fullgraph.rewrites.fix.config_ideas import Config, prove_config_ideas
from fullgraph.rewrites.fix.fixes import Fixes
from fullgraph.rewrites.fix.offers import Offer, Offers, apply_offers, exempted, names_of
from fullgraph.rewrites.fix.program_facts import propose_with_facts
from fullgraph.rewrites.fix.pruning import search_with_boundaries, undo_under_inductor
from fullgraph.rewrites.fix.recompile_edits import search_recompile_edits
from fullgraph.rewrites.fix.recompiles import CheckedSetting, CompileSetting, find_setting
from fullgraph.rewrites.fix.results import NOT_RUN, FullgraphRun, list_suggestions, list_unfixed
from fullgraph.rewrites.fix.search import (
    EditedProgram,
    ProgramRuns,
    SearchState,
    Texts,
    search_safe_edits,
    search_unsafe_edits,
)
from fullgraph.rewrites.proof import (
    Check,
    Proof,
    ProofState,
    RunMemo,
    override_program,
    prove,
    share_failure,
    verify_inductor,
)
from fullgraph.rewrites.rule import Applicability
from fullgraph.rewrites.rules import all_rules, select_rules

ROUNDS, SECONDS = 8, 300.0
"""Default limits of `fix`: rounds of edits, and wall time in seconds."""
UNMASK_SECONDS = 30.0
"""Time limit for each explanation to look for hidden causes."""
PROOF_SECONDS = 5.0
"""Minimum time limit of a proof, even when `seconds` have passed."""


@dataclass(frozen=True)
class FixStep:
    """One step of `fix`, for a progress display."""

    what: str
    """"proving FG301 at line 12"."""
    seconds: float
    """Time since the start."""


@index_live_functions()
def fix(
    model: Callable[..., object],
    inputs: object,
    *,
    kwargs: Mapping[str, object] | None = None,
    calls: Sequence[object] = (),
    loss: Loss = None,
    backend: Backend = "eager",
    mode: str | None = None,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    inductor: bool = True,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    progress: Callable[[FixStep], object] | None = None,
) -> Fixes:
    """Rewrite the causes that keep `model(inputs)` from being one graph; prove each rewrite.

    Args:
        model, inputs, kwargs, calls, loss, backend, mode, dynamic, options: see
            `explain`; the proof adds inputs of its own.
        select, ignore: codes or names of rules, or prefixes of them.
        inductor: whether to run the result under Inductor, once.
        rounds, seconds: limits of the search; edits proved before a limit are kept. The last run
            may take a few seconds more.
        progress: called before every run of the program.

    Nothing is written: `Fixes.diff()` shows the edits, `Fixes.apply()` writes them, `Fixes.model`
    is a patched copy. Raises FullgraphError for arguments that cannot be called.
    A KeyboardInterrupt carries the fixes found so far as `partial`, if the causes are known.
    """
    program = parse_program(
        model,
        inputs,
        kwargs=kwargs,
        calls=calls,
        loss=loss,
        backend=backend,
        mode=mode,
        dynamic=dynamic,
        options=options,
        command="fix",
    )
    rules = select_rules(all_rules(), select, ignore)
    start = time.monotonic()

    def report_progress(what: str) -> None:
        """Report the step that begins."""
        show(f"{what[:1].upper()}{what[1:]} …")
        if progress is not None:
            progress(FixStep(what, time.monotonic() - start))

    interrupts: list[KeyboardInterrupt] = []

    def is_late() -> bool:
        return bool(interrupts) or time.monotonic() - start > seconds

    def seconds_left() -> float:
        return max(PROOF_SECONDS, seconds - (time.monotonic() - start))

    memo = RunMemo()
    proved: dict[Hashable, Sequence[Offer]] = {}
    granted: dict[Hashable, frozenset[str]] = {}  # by all edits that a text has
    proposed: dict[Hashable, list[Offers]] = {}
    explained: dict[Hashable, Explanation] = {}

    def propose_edits(edited: EditedProgram) -> list[Offers]:
        """Return the offers for the causes of an edited program."""
        key = _key_of(edited.texts), edited.explanation.causes
        if key not in proposed:
            report_progress("recording eager values")
            found = propose_with_facts(program, edited, rules, seconds_left())
            if is_late():
                return found
            proposed[key] = found
        return proposed[key]

    def prove_edits(base: Texts, texts: Texts, offers: Sequence[Offer]) -> Proof:
        """Prove that `texts`, with all edits of `offers`, behave as `base` does."""
        report_progress(f"proving {names_of(offers)}")
        granted[_key_of(texts)] = granted.get(_key_of(base), frozenset()) | exempted(offers)
        if not base:
            proved[_key_of(texts)] = offers
        return run_proof(base, texts, offers)

    def run_proof(
        base: Texts,
        texts: Texts,
        offers: Sequence[Offer],
        inductor: bool = False,
        backward: bool = False,
    ) -> Proof:
        """Prove all edits of `offers` together, without repeating runs that `memo` holds."""
        rewrites = [offer.rewrite for offer in offers]
        differs = any(offer.as_compiled is not offer for offer in offers)
        compiled = apply_offers(offer.as_compiled for offer in offers)[0] if differs else {}
        return prove(
            program,
            texts,
            base=base,
            as_compiled={**texts, **compiled},
            inductor=inductor,
            backward=backward,
            memo=memo,
            tests=[test for offer in offers for test in offer.tests],
            seconds=seconds_left(),
            numbers=any(rewrite.numbers for rewrite in rewrites),
            strict=all(rewrite.applicability is Applicability.SAFE for rewrite in rewrites),
            exempt=exempted(offers) | granted.get(_key_of(base), frozenset()) - {"randomness"},
            both=[test for offer in offers for test in offer.needed_tests],
        )

    failures: list[str] = []

    @functools.cache
    def check_original() -> Check:
        report_progress("running the original under Inductor")
        return verify_inductor(program, seconds_left(), fullgraph=False)

    def prove_under_inductor(texts: Texts, offers: Sequence[Offer]) -> Proof:
        """Prove under Inductor; ignore a failure that the original program has, too."""
        report_progress("running under Inductor")
        key = _key_of(texts)
        inductor = not runs_whole(texts, offers)
        if key in proved:  # in one step from the original: its runs in eager are known
            proof = run_proof({}, texts, proved[key], inductor, backward=True)
        else:
            proof = prove(
                program,
                texts,
                seconds=seconds_left(),
                inductor=inductor,
                backward=True,
                numbers=any(offer.rewrite.numbers for offer in offers),
                strict=False,
                exempt=exempted(offers),
                memo=memo,
            )
        shared = [check for check in proof.checks if check.name == "backward" and check.ok]
        failures.extend(check.detail for check in shared if check.detail)
        failed = [check for check in proof.checks if not check.ok]
        if [check.name for check in failed] != ["inductor"]:
            return proof
        if not share_failure(original := check_original(), failed[0]):
            return proof
        failures.append(original.detail)
        return replace(proof, state=ProofState.PROVED)

    verified: dict[Hashable, Check] = {}

    def check_fullgraph(texts: Texts, offers: Sequence[Offer]) -> Check:
        """Run edited texts under `fullgraph=True` with Inductor; remember the check."""
        key = _key_of(texts)
        if key not in verified:
            report_progress("running under fullgraph=True with Inductor")
            with override_program(program.target, texts):
                verified[key] = verify_inductor(program, seconds_left(), exempt=exempted(offers))
        return verified[key]

    def runs_whole(texts: Texts, offers: Sequence[Offer]) -> bool:
        """Return whether edited texts are one graph in both modes and run so under Inductor.

        That run includes the one in default mode: the graph is the same.
        """
        after = explained.get(_key_of(texts))
        if after is None or after.default.breaks or after.recompiles or not after.fullgraph.ok:
            return False
        needed = whole is None or not whole.check.ok  # else `verify` would not run it
        return needed and not is_late() and check_fullgraph(texts, offers).ok

    def verify(edits: str, state: SearchState) -> FullgraphRun | None:
        """Run the edited program with `fullgraph=True` and Inductor; None if it has breaks.

        Without Inductor, that Dynamo captured it as one graph is all that is known.
        """
        one_graph = known[0].causes and state.program.explanation.fullgraph.ok
        if not one_graph or is_late():
            return None
        if not inductor:
            return FullgraphRun(edits, Check("fullgraph", True, NOT_RUN))
        return FullgraphRun(edits, check_fullgraph(state.program.texts, state.accepted))

    def explain_edits(texts: Texts, offers: Sequence[Offer]) -> Explanation:
        """Return the explanation of the program with edited texts."""
        key = _key_of(texts)
        if key not in explained:
            report_progress(f"explaining after {names_of(offers)}")
            found = _explain_with(program, texts, seconds_left())
            if is_late():
                return found
            explained[key] = found
        return explained[key]

    def explain_with_setting(setting: CompileSetting) -> Explanation:
        report_progress(f"trying {setting}")
        with patch_config(setting.config):
            return _explain_with(setting.of(program), base.program.texts, seconds_left())

    def verify_setting(setting: CompileSetting) -> Check:
        report_progress(f"running with {setting}{' under Inductor' if inductor else ''}")
        with patch_config(setting.config), override_program(program.target, base.program.texts):
            return verify_inductor(
                setting.of(program),
                seconds_left(),
                fullgraph=False,
                exempt=exempted(base.accepted),
                original=program if setting.tensors or setting.warm_up else None,
                backend="inductor" if inductor else "eager",
            )

    def explain_with_config(config: Config, causes: Sequence[Cause]) -> Explanation:
        """Explain with a setting; stop early once none of `causes` can be removed by it."""
        report_progress(f"trying {', '.join(config)}")
        old, texts = unsafe.program.explanation, unsafe.program.texts
        with patch_config(config), closing(_explanations_with(program, texts, seconds_left())) as e:
            for found in e:
                if len(staying_causes(old, found, causes)) == len(causes):
                    break
        return found

    def prove_with_config(config: Config) -> Proof:
        report_progress(f"proving {', '.join(config)}")
        texts = unsafe.program.texts
        with patch_config(config):
            exempt = granted.get(_key_of(texts), frozenset()) - {"randomness"}
            return prove(program, texts, base=texts, seconds=seconds_left(), exempt=exempt)

    runs = ProgramRuns(
        propose_edits, prove_edits, prove_under_inductor, check_fullgraph, explain_edits, is_late
    )
    with progress_line("Explaining …") as show:
        report_progress("explaining")
        known: list[Explanation] = []
        try:
            for step in _explanations_with(program, {}, seconds_left()):
                known = [step]
        except KeyboardInterrupt as interrupt:
            if not known:
                raise
            interrupts.append(interrupt)
        before = EditedProgram({}, known[0])
        safe = unsafe = base = SearchState(before)
        ideas: Mapping[tuple[CauseKey, str], Proof] = {}
        whole: FullgraphRun | None = None
        setting: CheckedSetting | None = None
        try:
            whole = verify("none", safe)
            plain, safe = search_safe_edits(safe, runs, rounds)
            base = safe
            safe = unsafe = search_recompile_edits(safe, Applicability.SAFE, runs)
            if inductor:
                safe = search_index_edits(safe, whole, Applicability.SAFE, runs, rounds)
                safe = unsafe = undo_under_inductor(safe, runs)
            if safe.program is not before:
                whole = _better(whole, lambda: verify("safe", safe))
            unsafe = base = search_unsafe_edits(plain, safe, runs, rounds)
            tried = _better(whole, lambda: verify("unsafe", unsafe))
            if tried is None or not tried.check.ok:  # else `fullgraph=True` is the answer
                unsafe = base = search_with_boundaries(unsafe, plain, safe, runs, rounds)
            unsafe = search_recompile_edits(unsafe, Applicability.UNSAFE, runs)
            if inductor and unsafe.program is not safe.program:
                unsafe = search_index_edits(unsafe, whole, Applicability.UNSAFE, runs, rounds)
                unsafe = undo_under_inductor(unsafe, runs)
                whole = _better(whole, lambda: verify("unsafe", unsafe))
            if whole is None or not whole.check.ok:
                ideas = prove_config_ideas(unsafe, explain_with_config, prove_with_config, is_late)
            broken = bool(unsafe.program.explanation.causes) and not (whole and whole.check.ok)
            if unsafe.program.explanation.recompiles or broken:
                base = unsafe  # else the setting stands beside the edits
            if base.program.explanation.recompiles or broken:
                setting = find_setting(
                    base.program.explanation,
                    program,
                    explain=explain_with_setting,
                    verify=verify_setting,
                    is_late=is_late,
                )
        except KeyboardInterrupt as interrupt:
            interrupts.append(interrupt)
    ended_by = "Ctrl-C" if interrupts else "the time limit" if is_late() else None
    fixes = Fixes(
        torch=torch.__version__,
        target=program.name,
        before=before.explanation,
        after=safe.program.explanation,
        after_unsafe=unsafe.program.explanation,
        whole=whole,
        call_setting=setting,
        compiler_failure=failures[0] if failures else "",
        suggestions=list_suggestions(safe, unsafe, ideas, whole),
        unfixed=list_unfixed(unsafe, rules, ended_by, whole, setting),
        originals={**safe.originals, **unsafe.originals},
        texts=safe.program.texts,
        texts_unsafe=unsafe.program.texts,
        subject=program.target,
    )
    if interrupts:
        interrupts[0].partial = fixes  # type: ignore[attr-defined]
        raise interrupts[0]
    return fixes


def _better(
    known: FullgraphRun | None, run: Callable[[], FullgraphRun | None]
) -> FullgraphRun | None:
    """Return `known` if that run succeeded; else `run()`, or `known` if `run()` is None."""
    return known if known is not None and known.check.ok else run() or known


def _key_of(texts: Texts) -> Hashable:
    return frozenset(texts.items())


def _explain_with(program: Program, texts: Texts, seconds: float) -> Explanation:
    """Return the explanation of the program with edited texts, after `seconds` at the latest."""
    (last,) = deque(_explanations_with(program, texts, seconds), maxlen=1)
    return last


def _explanations_with(program: Program, texts: Texts, seconds: float) -> Generator[Explanation]:
    """Yield the partial explanations of the program with edited texts, the whole one last."""
    with override_program(program.target, texts):
        yield from explanations(program, seconds=min(UNMASK_SECONDS, seconds), limit=seconds)
