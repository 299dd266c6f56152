"""Ideas that set configuration of the compiler, proved on the program as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fullgraph.diagnose.explanation import Explanation
from fullgraph.rewrites.fix.causes import CauseKey, cause_key, check_causes
from fullgraph.rewrites.fix.search import SearchState
from fullgraph.rewrites.proof import Check, Proof, ProofState

Config = Mapping[str, object]
"""Values by the names of configuration: "torch._dynamo.config.allow_rnn" to True."""


@dataclass(frozen=True)
class ConfigRun:
    """The program explained and proved under a configuration."""

    explanation: Explanation
    proof: Proof


def prove_config_ideas(
    state: SearchState, run: Callable[[Config], ConfigRun], is_late: Callable[[], bool]
) -> dict[tuple[CauseKey, str], Proof]:
    """Prove each suggested setting on its own, for the causes that remain.

    Returns proofs by cause and rule code. `run` raises AttributeError where torch lacks a name.
    """
    runs: dict[str, ConfigRun | Proof] = {}
    proofs: dict[tuple[CauseKey, str], Proof] = {}
    explanation = state.program.explanation
    for cause in explanation.causes:
        answer = state.offers.get(cause_key(cause))
        for offer in answer.offers if answer is not None else ():
            config = offer.rewrite.settings
            if not config or is_late():
                continue
            key = repr(dict(config))
            if key not in runs:
                runs[key] = _run_or_fail(run, config)
            done = runs[key]
            if isinstance(done, ConfigRun):
                check = check_causes(explanation, done.explanation, [cause])
                result = done.proof.state if check.ok else ProofState.FAILED
                done = Proof(result, (*done.proof.checks, check), done.proof.inputs)
            proofs[cause_key(cause), offer.rule.code] = done
    return proofs


def _run_or_fail(run: Callable[[Config], ConfigRun], config: Config) -> ConfigRun | Proof:
    """Run the program under a configuration; return a failed proof if torch lacks the setting."""
    try:
        return run(config)
    except AttributeError:
        detail = f"this torch has no setting {', '.join(config)}"
        return Proof(ProofState.FAILED, (Check("setting", False, detail),))
