"""Ideas that set configuration of the compiler, proved without changing the source."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from fullgraph.compiler.isolation import TimeUp
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.fix.causes import CauseKey, cause_key, check_causes
from fullgraph.rewrites.fix.offers import Offer
from fullgraph.rewrites.fix.runs import ProgramRuns
from fullgraph.rewrites.fix.search import SearchState
from fullgraph.rewrites.fix.settings import Config
from fullgraph.rewrites.proof import Check, Proof, ProofState


def prove_config_ideas(state: SearchState, runs: ProgramRuns) -> dict[tuple[CauseKey, str], Proof]:
    """Prove each suggested setting on its own, for the causes that remain.

    Returns proofs by cause and rule code. If a setting does not remove a cause, the proof for the
    two fails without a run. Settings for which there was no time are left out.
    """
    groups: dict[str, list[tuple[Cause, Offer]]] = {}
    for cause in state.program.explanation.causes:
        answer = state.offers.get(cause_key(cause))
        for offer in answer.offers if answer is not None else ():
            if offer.rewrite.settings:
                key = repr(dict(offer.rewrite.settings))
                groups.setdefault(key, []).append((cause, offer))
    proofs: dict[tuple[CauseKey, str], Proof] = {}
    with suppress(TimeUp):
        for group in groups.values():
            config = group[0][1].rewrite.settings
            after = _explain_or_fail(state, runs, config, [cause for cause, _ in group])
            run: Proof | None = None
            for cause, offer in group:
                done = after
                if isinstance(done, Explanation):
                    check = check_causes(state.program.explanation, done, [cause])
                    if check.ok:
                        run = run or runs.prove_with_config(config, state.program.texts)
                    proof = run if check.ok and run is not None else Proof(ProofState.FAILED)
                    done = Proof(proof.state, (*proof.checks, check), proof.inputs)
                proofs[cause_key(cause), offer.rule.code] = done
    return proofs


def _explain_or_fail(
    state: SearchState, runs: ProgramRuns, config: Config, causes: Sequence[Cause]
) -> Explanation | Proof:
    """Explain with a setting that may remove `causes`; a failed proof if this torch lacks it."""
    try:
        return runs.explain_with_config(config, state.program, causes)
    except AttributeError:
        detail = f"this torch has no setting {', '.join(config)}"
        return Proof(ProofState.FAILED, (Check("setting", False, detail),))
