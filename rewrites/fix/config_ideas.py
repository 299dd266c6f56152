"""Ideas that set configuration of the compiler, proved on the program as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.fix.causes import CauseKey, cause_key, check_causes
from fullgraph.rewrites.fix.offers import Offer
from fullgraph.rewrites.fix.search import SearchState
from fullgraph.rewrites.proof import Check, Proof, ProofState

Config = Mapping[str, object]
"""Values by the names of configuration: "torch._dynamo.config.allow_rnn" to True."""


def prove_config_ideas(
    state: SearchState,
    explain: Callable[[Config, Sequence[Cause]], Explanation],
    prove: Callable[[Config], Proof],
    is_late: Callable[[], bool],
) -> dict[tuple[CauseKey, str], Proof]:
    """Prove each suggested setting on its own, for the causes that remain.

    Returns proofs by cause and rule code. A setting that does not remove its cause is not proved.
    `explain` gets all causes of a setting, and may end once each is known to stay. It raises
    AttributeError where torch lacks a name.
    """
    explanations: dict[str, Explanation | Proof] = {}
    runs: dict[str, Proof] = {}
    proofs: dict[tuple[CauseKey, str], Proof] = {}
    explanation = state.program.explanation
    asked = list(_ideas_of(state))
    for cause, offer in asked:
        config = offer.rewrite.settings
        if is_late():
            break
        key = repr(dict(config))
        if key not in explanations:
            causes = [one for one, other in asked if repr(dict(other.rewrite.settings)) == key]
            explanations[key] = _explain_or_fail(explain, config, causes)
        done = explanations[key]
        if isinstance(done, Explanation):
            check = check_causes(explanation, done, [cause])
            if check.ok and key not in runs:
                runs[key] = prove(config)
            proof = runs[key] if check.ok else Proof(ProofState.FAILED)
            done = Proof(proof.state, (*proof.checks, check), proof.inputs)
        proofs[cause_key(cause), offer.rule.code] = done
    return proofs


def _ideas_of(state: SearchState) -> Iterator[tuple[Cause, Offer]]:
    """Yield the offers of settings, each with its cause."""
    for cause in state.program.explanation.causes:
        answer = state.offers.get(cause_key(cause))
        for offer in answer.offers if answer is not None else ():
            if offer.rewrite.settings:
                yield cause, offer


def _explain_or_fail(
    explain: Callable[[Config, Sequence[Cause]], Explanation],
    config: Config,
    causes: Sequence[Cause],
) -> Explanation | Proof:
    """Explain the program with a setting; return a failed proof if torch lacks it."""
    try:
        return explain(config, causes)
    except AttributeError:
        detail = f"this torch has no setting {', '.join(config)}"
        return Proof(ProofState.FAILED, (Check("setting", False, detail),))
