"""Ideas that set configuration of the compiler, proved without changing the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.fix.causes import CauseKey, cause_key, check_causes
from fullgraph.rewrites.fix.offers import Offer
from fullgraph.rewrites.fix.search import SearchState
from fullgraph.rewrites.proof import Check, Proof, ProofState

Config = Mapping[str, object]
"""Configuration values by name: {"torch._dynamo.config.allow_rnn": True}."""


def prove_config_ideas(
    state: SearchState,
    explain: Callable[[Config, Sequence[Cause]], Explanation],
    prove: Callable[[Config], Proof],
    is_late: Callable[[], bool],
) -> dict[tuple[CauseKey, str], Proof]:
    """Prove each suggested setting on its own, for the causes that remain.

    Returns proofs by cause and rule code. If a setting does not remove a cause, the proof for the
    two fails, and `prove` is not called. `explain` gets a setting and the causes it is suggested
    for; it may stop once it knows that the setting removes none. It raises AttributeError if this
    torch lacks the setting. Once `is_late` returns True, the other settings are left out.
    """
    groups: dict[str, list[tuple[Cause, Offer]]] = {}
    for cause in state.program.explanation.causes:
        answer = state.offers.get(cause_key(cause))
        for offer in answer.offers if answer is not None else ():
            if offer.rewrite.settings:
                key = repr(dict(offer.rewrite.settings))
                groups.setdefault(key, []).append((cause, offer))
    proofs: dict[tuple[CauseKey, str], Proof] = {}
    for group in groups.values():
        if is_late():
            break
        config = group[0][1].rewrite.settings
        after = _explain_or_fail(explain, config, [cause for cause, _ in group])
        run: Proof | None = None
        for cause, offer in group:
            done = after
            if isinstance(done, Explanation):
                check = check_causes(state.program.explanation, done, [cause])
                if check.ok:
                    run = run or prove(config)
                proof = run if check.ok and run is not None else Proof(ProofState.FAILED)
                done = Proof(proof.state, (*proof.checks, check), proof.inputs)
            proofs[cause_key(cause), offer.rule.code] = done
    return proofs


def _explain_or_fail(
    explain: Callable[[Config, Sequence[Cause]], Explanation],
    config: Config,
    causes: Sequence[Cause],
) -> Explanation | Proof:
    """Return `explain(config, causes)`, or a failed proof if this torch lacks the setting."""
    try:
        return explain(config, causes)
    except AttributeError:
        detail = f"this torch has no setting {', '.join(config)}"
        return Proof(ProofState.FAILED, (Check("setting", False, detail),))
