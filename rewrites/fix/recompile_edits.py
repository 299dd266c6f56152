"""Search for edits against recompiles: each is proved, and kept if fewer recompiles remain.

It takes up where the search for edits against graph breaks ends, with the same state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

from fullgraph.compiler.isolation import TimeUp
from fullgraph.compiler.sources import is_user_code
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.diagnose.taxonomy import RootKind
from fullgraph.rewrites.fix.causes import count_recompiles, recompile_causes
from fullgraph.rewrites.fix.edited_program import EditedProgram
from fullgraph.rewrites.fix.offers import Offer
from fullgraph.rewrites.fix.runs import ProgramRuns
from fullgraph.rewrites.fix.search import EditTrial, SearchState, prove_and_explain
from fullgraph.rewrites.proof import Check, ProofState
from fullgraph.rewrites.rule import Applicability

_EXPERT: dict[str, str] = {
    RootKind.SIZE: "mark the dimension as dynamic, or pad to a few sizes",
    RootKind.LENGTH: "keep a tensor of fixed size, or hold the container outside of the graph",
    RootKind.KEYS: "give every call the same keys, with zeros for missing ones",
    RootKind.ARGUMENT: "pass a 0-d tensor where it is only computed with; where it is a size or a "
    "number of iterations, accept one graph for each value",
    RootKind.ATTRIBUTE: "keep a tensor of fixed shape in a buffer",
    RootKind.GLOBAL: "pass the value as an argument, or accept one graph for each value",
    RootKind.CLOSURE: "pass what the function closes over as a tensor argument",
    RootKind.NONE: "make the value before the first compiled call",
    RootKind.FLAG: "accept one graph for each value, or compile one function for each",
    RootKind.TRAINING: "accept one graph for training and one for evaluation",
    RootKind.STATE: "set it once before the first call, or accept one graph for each setting",
    RootKind.TENSOR: "give the tensor one dtype, layout and `requires_grad` at the boundary",
    RootKind.OBJECT: "make the object once, outside of the compiled code",
    RootKind.RESUMED: "remove the graph break that the value comes out of",
    RootKind.OTHER: "give the same value in each call, or a tensor of indices in place of names",
}
"""What an expert would do if no edit and no setting helps, by the kind of value that changed."""


def expert_advice(cause: Cause, explanation: Explanation) -> str:
    """Return what an expert would do about recompiles; "" for a cause that is a graph break.

    If a graph break in `explanation` is why the recompiled function is a frame of its own, that is
    to remove the break.
    """
    if cause.category not in _EXPERT:
        return ""
    function = re.sub(r"^torch_dynamo_resume_in_(\w+)_at_\d+$", r"\1", cause.position.function)
    for one in explanation.causes:
        callers = [place for place in one.stack[:-1] if is_user_code(place.file)]
        if callers and one.position.function == function:
            return (
                f"remove the graph break at `{one.expression}`, which makes it a frame of its own"
            )
    return _EXPERT[cause.category]


def search_recompile_edits(
    state: SearchState, level: Applicability, runs: ProgramRuns
) -> SearchState:
    """Apply every edit that is proved and leaves fewer recompiles; return the new state.

    `level` is the least safe applicability that an edit may have.
    """
    tried = True
    while tried and state.program.explanation.recompiles:
        causes = tuple(recompile_causes(state.program.explanation))
        if not causes:
            break
        asked = replace(state.program.explanation, causes=causes)
        try:
            found = runs.propose(replace(state.program, explanation=asked))
        except TimeUp:
            break
        state = state.with_offers(found)
        tried = False
        for offer in _offers_to_try(state, level):
            before = state.program
            state, tried = _try_offer(state, offer, level, runs), True
            if state.program is not before or runs.is_late():
                break
    return state


def _offers_to_try(state: SearchState, level: Applicability) -> Iterator[Offer]:
    """Yield the best offer for each cause of recompiles that has one.

    Offers less safe than `level`, and offers for a file that has been edited since they were made,
    are left out.
    """
    for found in state.offers.values():
        if found.cause.category in _EXPERT:
            offer = state.best_offer(found, level)
            if offer is not None and offer.document.text == _text_of(state, offer):
                yield offer


def _text_of(state: SearchState, offer: Offer) -> str:
    file = offer.document.file
    return state.program.texts.get(file, state.originals[file])


def _try_offer(
    state: SearchState, offer: Offer, level: Applicability, runs: ProgramRuns
) -> SearchState:
    """Prove an edit, and apply it if fewer recompiles remain over all calls.

    Return the state with this trial. Unless `level` is UNSAFE, only an edit that needs no
    assumption and whose conditions took both branches is applied.
    """
    program = state.program
    texts = {**program.texts, offer.document.file: offer.text}
    holds = attrgetter("holds")
    proof, explanation = prove_and_explain(program, texts, [offer], runs, holds)
    if proof.holds:
        check = _check_recompiles(program.explanation, explanation)
        result = proof.state if check.ok else ProofState.FAILED
        proof = replace(proof, state=result, checks=(*proof.checks, check))
    accepted = proof.whole or (proof.holds and level is Applicability.UNSAFE)
    index = len(state.trials)
    state = state.with_trial(index, EditTrial((offer,), proof, accepted))
    if accepted:
        state = replace(state, program=EditedProgram(texts, explanation, program, index))
    return state.with_proof_state([offer.key], proof.state)


def _check_recompiles(before: Explanation, after: Explanation) -> Check:
    """Check that an edit leaves fewer recompiles, no additional cause, and no crash."""
    if after.error or after.crashes:
        return Check("recompiles", False, after.error or "the compiler crashes on the new code")
    if len(after.causes) > len(before.causes):
        return Check("recompiles", False, f"`{after.causes[-1].expression}` breaks the graph")
    old, new = count_recompiles(before), count_recompiles(after)
    if new >= old:
        return Check("recompiles", False, f"it recompiles as often: {new} times")
    return Check("recompiles", True, f"{old} recompiles before, {new} after")
