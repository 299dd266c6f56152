"""Edits that turn out to gain nothing are dropped from the unsafe result."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import libcst as cst

from fullgraph.compiler.isolation import TimeUp
from fullgraph.rewrites.fix.causes import CauseKey, cause_key
from fullgraph.rewrites.fix.edited_program import EditedProgram
from fullgraph.rewrites.fix.offers import Offer, edit_places, inserted_after
from fullgraph.rewrites.fix.runs import ProgramRuns
from fullgraph.rewrites.fix.search import (
    EditTrial,
    SearchState,
    is_better,
    search_edits,
    search_unsafe_edits,
    try_edits,
)
from fullgraph.rewrites.proof import Check, Proof, ProofState
from fullgraph.rewrites.rule import Applicability
from fullgraph.rewrites.source import Document


def search_with_boundaries(
    state: SearchState, plain: SearchState, safe: SearchState, runs: ProgramRuns, rounds: int
) -> SearchState:
    """Continue an unsafe search with edits that take code out of the graph; return the new state.

    `state` is the result of `search_unsafe_edits(plain, safe, …)`. Edits that gain nothing in the
    end are dropped.
    """
    found = search_edits(state, Applicability.UNSAFE, runs, rounds)
    if (vain := _vain_shortcuts(found)) and not runs.is_late():
        plain, safe = (replace(one, blocked=one.blocked | vain) for one in (plain, safe))
        other = search_unsafe_edits(plain, safe, runs, rounds)
        other = search_edits(other, Applicability.UNSAFE, runs, rounds)
        if _breaks(other) <= _breaks(found):
            found = other
    with suppress(TimeUp):
        found = _drop_covered_edits(found, runs)
    return found


def undo_uncompiled(state: SearchState, runs: ProgramRuns) -> SearchState:
    """Undo the last edits until the program behaves compiled as in eager, or fails as the original.

    Return the new state, in which the undone edits have failed.
    """
    while (parent := state.program.parent) is not None:
        try:
            check = runs.check_compiled(state.program.texts, state.accepted)
            if check.ok and runs.inductor and _gains_capture_alone(state.program):
                check = runs.check_fullgraph(state.program.texts, state.accepted)
        except TimeUp:
            break
        if check.ok:
            break
        proof = Proof(ProofState.FAILED, (check,))
        index = state.program.trial
        trial = replace(state.trials[index], accepted=False, proof=proof)
        state = state.with_trial(index, trial)
        state = state.with_proof_state((o.key for o in trial.offers), ProofState.FAILED)
        state = replace(state, program=parent)
    return state


def _gains_capture_alone(program: EditedProgram) -> bool:
    """Whether `fullgraph=True` captures a program that runs in as many parts as the original.

    A function that runs in eager has one break, however many graphs its callees are.
    """
    before, after = program.original.explanation, program.explanation
    counts = [(e.default.breaks or 0, e.default.graphs or 0) for e in (before, after)]
    fewer = any(new < old for old, new in zip(*counts, strict=True))
    return bool(after.fullgraph.ok and not before.fullgraph.ok and not fewer)


def _vain_shortcuts(state: SearchState) -> frozenset[tuple[str, CauseKey]]:
    """Return the edits by which compiled code does all work of a function that still breaks.

    Each is the rule's code with its cause. There are none if `fullgraph=True` captures the program.
    """
    explanation = state.program.explanation
    breaking = {(one.position.file, one.position.function) for one in explanation.causes}
    return frozenset(
        (offer.rule.code, cause_key(offer.cause))
        for offer in state.accepted
        if offer.rewrite.has_shortcut
        and offer.rewrite.applicability is Applicability.UNSAFE
        and (offer.at.file, offer.at.function) in breaking
        and not explanation.fullgraph.ok
    )


def _breaks(state: SearchState) -> tuple[int, int]:
    """Return the number of breaks in default mode, and that of graphs."""
    default = state.program.explanation.default
    return default.breaks or 0, default.graphs or 0


def _drop_covered_edits(state: SearchState, runs: ProgramRuns) -> SearchState:
    """Draw the last boundary anew, on the program without the edits inside its function or below.

    Return the new state; `state` if the last edit is no boundary, the result would be worse, or no
    such edits precede it.
    """
    program, boundary = state.program, _last_boundary(state)
    if boundary is None or program.parent is None:
        return state
    covered, base = [program.trial], program.parent
    while base.parent is not None and _is_covered(state.trials[base.trial], boundary):
        covered.append(base.trial)
        base = base.parent
    offer = _same_boundary(boundary, base, runs) if len(covered) > 1 else None
    if offer is None:
        return state
    start = replace(state, program=base)
    check = Check("boundary", False, f"{boundary.rule.code} takes the function out of the graph")
    for index in covered:
        trial = state.trials[index]
        dropped = replace(trial.proof, state=ProofState.FAILED, checks=(check,))
        start = start.with_trial(index, replace(trial, accepted=False, proof=dropped))
    texts = {offer.document.file: offer.text}
    after = try_edits(start, texts, [offer], Applicability.UNSAFE, runs)
    return state if after.program is base or is_better(program, after.program) else after


def _last_boundary(state: SearchState) -> Offer | None:
    """Return the last accepted offer if it takes a whole function out of the graph; else None."""
    if state.program.parent is None:
        return None
    offer, *others = state.trials[state.program.trial].offers
    functions = (one for one in offer.rewrite.replacements if isinstance(one, cst.FunctionDef))
    blocks = (one for one in offer.rewrite.replacements if isinstance(one, cst.IndentedBlock))
    whole = any(functions) or any(
        isinstance(offer.document.parent(one), cst.FunctionDef) for one in blocks
    )
    return offer if whole and offer.rule.boundary and not others else None


def _is_covered(trial: EditTrial, boundary: Offer) -> bool:
    """Whether the edits of `trial` change the function of `boundary` or what that calls.

    They may add definitions elsewhere.
    """
    path, at = _path_of(boundary), (boundary.at.file, boundary.at.function)
    stacks = (edit_places(offer.cause) for offer in trial.offers)
    if all(any((place.file, place.function) == at for place in stack) for stack in stacks):
        return True
    return all(
        one.document.file == boundary.document.file
        and _names_around(one.document, node)[: len(path)] == path
        for one in trial.offers
        for node, new in one.rewrite.replacements.items()
        if not inserted_after(node, new)
    )


def _names_around(document: Document, node: cst.CSTNode) -> tuple[str, ...]:
    """Return the names of the classes and functions around a node, outermost first."""
    kinds = cst.ClassDef | cst.FunctionDef
    around = (one for one in (node, *document.ancestors(node)) if isinstance(one, kinds))
    return tuple(one.name.value for one in around)[::-1]


def _path_of(offer: Offer) -> tuple[str, ...]:
    """Return the names of the classes and functions around the place of an offer."""
    node = offer.document.node(offer.at)
    return _names_around(offer.document, node) if node is not None else ()


def _same_boundary(boundary: Offer, base: EditedProgram, runs: ProgramRuns) -> Offer | None:
    """Return the offer of the rule of `boundary` for the same function in `base`; None if none."""
    offers = (offer for found in runs.propose(base) for offer in found.offers)
    return next((one for one in offers if _is_same(one, boundary)), None)


def _is_same(one: Offer, other: Offer) -> bool:
    """Whether two offers are of one rule, for one function."""
    places = [(offer.rule.code, offer.document.file, _path_of(offer)) for offer in (one, other)]
    return places[0] == places[1]
