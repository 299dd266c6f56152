"""Search for edits: try offers together, then one by one, and keep what is proved and pays.

The search is a chain of functions from one `SearchState` to the next. What it needs from the
program comes through `ProgramRuns`. Where the time is up, it returns what was found by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from fullgraph.compiler.isolation import TimeUp
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.fix.causes import CauseKey, cause_key, check_causes, replaces_causes
from fullgraph.rewrites.fix.edited_program import EditedProgram, Texts
from fullgraph.rewrites.fix.offers import EditKey, Offer, Offers, apply_offers
from fullgraph.rewrites.fix.runs import ProgramRuns
from fullgraph.rewrites.proof import Check, Proof, ProofState
from fullgraph.rewrites.rule import Applicability


@dataclass(frozen=True)
class EditTrial:
    """Offers applied at once, with their proof."""

    offers: tuple[Offer, ...]
    proof: Proof
    accepted: bool


@dataclass(frozen=True, eq=False)
class SearchState:
    """State of the search: the edited program, and the trials so far."""

    program: EditedProgram
    trials: tuple[EditTrial, ...] = ()
    states: Mapping[EditKey, ProofState] = field(default_factory=dict)
    """Last proof state of each edit; an edit that failed is not tried again."""
    one_sided: frozenset[CauseKey] = frozenset()
    """Causes whose condition had one value on every input: no edit that depends on it is safe."""
    deferred: frozenset[EditKey] = frozenset()
    """Safe edits that replace their cause by one that only an unsafe edit may remove."""
    idle: Mapping[CauseKey, CauseKey] = field(default_factory=dict)
    """Causes whose edits join no graphs while another cause stays, each with that one."""
    offers: Mapping[CauseKey, Offers] = field(default_factory=dict)
    """Latest offers for each cause."""
    originals: Texts = field(default_factory=dict)
    """Texts on disk of the files for which an edit was offered."""
    blocked: frozenset[tuple[str, CauseKey]] = frozenset()
    """Rules that are not tried for a cause: the rule's code and the cause."""
    only_plain: bool = False
    """Whether new operators and subgraphs wait where plain code, perhaps unsafe, is offered too."""

    @property
    def accepted(self) -> list[Offer]:
        """Return the offers that the edited program holds."""
        return [offer for trial in self.trials if trial.accepted for offer in trial.offers]

    def best_offer(self, found: Offers, level: Applicability, boundary: int = 0) -> Offer | None:
        """Return the offer in `found` to try next; None if none is left.

        `level` is the least safe applicability that it may have, `boundary` its `Rule.boundary`.
        """
        unsafe = level is Applicability.UNSAFE
        staying = set(map(cause_key, self.program.explanation.causes))
        if not boundary and self.idle.get(cause_key(found.cause)) in staying:
            return None
        tried = (self.only_plain and found.plain) or found.offers
        offers = [offer for offer in tried if offer.rule.boundary == boundary]
        for offer in sorted(offers, key=lambda o: o.preference) if unsafe else offers:
            state = self.states.get(offer.key)
            if (offer.rule.code, cause_key(offer.cause)) in self.blocked:
                continue
            if not unsafe and (offer.key in self.deferred or self.is_one_sided(offer)):
                continue
            if offer.key in self.deferred:
                state = None
            allowed = offer.rewrite.applicability is Applicability.SAFE or (
                unsafe and offer.rewrite.applicability is Applicability.UNSAFE
            )
            if allowed and (state is None or (unsafe and state is not ProofState.FAILED)):
                return offer
        return None

    def has_edit(self, cause: Cause) -> bool:
        """Return whether an edit that has not failed, other than a boundary, removes a cause."""
        found = self.offers.get(cause_key(cause))
        edits = [o for o in found.offers if not o.rule.boundary] if found is not None else []
        left = [o for o in edits if self.states.get(o.key) is not ProofState.FAILED]
        shown = Applicability.DISPLAY
        return any(offer.rewrite.applicability is not shown for offer in left)

    def is_one_sided(self, offer: Offer) -> bool:
        """Return whether a condition that `offer` depends on had one value on every input."""
        return bool(offer.tests) and cause_key(offer.cause) in self.one_sided

    def with_offers(self, found: Iterable[Offers]) -> SearchState:
        """Return this state with the offers in `found`, and the original texts of their files."""
        found = list(found)
        originals = dict(self.originals)
        for document in (offer.document for one in found for offer in one.offers):
            originals.setdefault(document.file, document.text)
        offers = {**self.offers, **{cause_key(one.cause): one for one in found}}
        return replace(self, offers=offers, originals=originals)

    def with_trial(self, index: int, trial: EditTrial) -> SearchState:
        """Return this state with `trial` at `index`: appended, or in place of an earlier one."""
        trials = (*self.trials[:index], trial, *self.trials[index + 1 :])
        return replace(self, trials=trials)

    def with_proof_state(self, keys: Iterable[EditKey], state: ProofState) -> SearchState:
        """Return this state with the proof state of some edits recorded."""
        return replace(self, states={**self.states, **dict.fromkeys(keys, state)})


@dataclass(frozen=True)
class EditChain:
    """Edits that pay only together: each removes a cause that the one before added."""

    start: Explanation
    """The explanation that the whole chain must improve."""
    remaining: int = 2
    """Number of further edits that may be tried."""


def search_edits(
    state: SearchState,
    level: Applicability,
    runs: ProgramRuns,
    rounds: int,
    boundaries: bool = True,
) -> SearchState:
    """Apply every edit that is proved and reduces the causes; return the new state.

    There are at most `rounds` rounds of new offers. `level` is the least safe applicability that an
    edit may have. Without `boundaries`, only edits that keep the code in the graph are tried.
    """
    start = state.program
    for _ in range(rounds):
        explanation = state.program.explanation
        if explanation.error or not explanation.causes:
            break
        try:
            found = runs.propose(state.program)
        except TimeUp:
            break
        state = state.with_offers(found)
        after = _try_together(state, _next_offers(state, found, level, boundaries), level, runs)
        if after.program is state.program and len(after.trials) == len(state.trials):
            break
        state = after
    return _undo_without_gain(state, start)


def search_safe_edits(
    state: SearchState, runs: ProgramRuns, rounds: int
) -> tuple[SearchState, SearchState]:
    """Apply the safe edits that are proved and pay; return the states without and with all of them.

    The first state lacks the new operators and subgraphs for which unsafe plain code is offered: an
    unsafe search starts from it. `rounds` is the limit of each of the two searches.
    """
    plain = search_edits(replace(state, only_plain=True), Applicability.SAFE, runs, rounds)
    plain = replace(plain, only_plain=False)
    return plain, search_edits(plain, Applicability.SAFE, runs, rounds)


def search_unsafe_edits(
    plain: SearchState, safe: SearchState, runs: ProgramRuns, rounds: int
) -> SearchState:
    """Apply the edits that are proved and pay, unsafe ones too; return the new state.

    `plain` and `safe` are what `search_safe_edits` returned. The search continues from `safe` where
    plain code does not remove as many causes. No edit takes code out of the graph.
    """
    level = Applicability.UNSAFE
    if {o.key for o in safe.accepted if not o.is_plain} - {o.key for o in plain.accepted}:
        found = search_edits(plain, level, runs, rounds, boundaries=False)
        if not is_better(safe.program, found.program):
            return found
    return search_edits(safe, level, runs, rounds, boundaries=False)


def is_better(one: EditedProgram, other: EditedProgram) -> bool:
    """Return whether `one` has fewer causes than `other`, or as many and fewer graphs."""
    ranks = [(len(e.causes), e.default.graphs or 0) for e in (one.explanation, other.explanation)]
    return ranks[0] < ranks[1]


def _next_offers(
    state: SearchState, found: Sequence[Offers], level: Applicability, boundaries: bool
) -> list[Offer]:
    """Return the offers to try next: the best one for each cause.

    All have the same `Rule.boundary`: 0 (the code stays in the graph) if there is such an offer;
    else, with `boundaries`, the next higher one. `found` holds the offers for each cause; `level`
    is the least safe applicability that an edit may have.
    """
    turns = {offer.rule.boundary for one in found for offer in one.offers if boundaries}
    for turn in sorted({0, *turns}):
        offers: dict[EditKey, Offer] = {}
        for offer in (state.best_offer(one, level, turn) for one in found):
            if offer is not None:
                offers.setdefault(offer.key, offer)
        if offers:
            return list(offers.values())
    return []


def _undo_without_gain(state: SearchState, start: EditedProgram) -> SearchState:
    """Undo the edits since `start`, last first, while they join no graphs.

    Dynamo skips a function that breaks in a loop, whatever else is mended in it in that mode.
    Return the new state, in which the undone edits have failed.
    """
    while (parent := state.program.parent) is not None and state.program is not start:
        index = state.program.trial
        trial = state.trials[index]
        before, after = parent.explanation, state.program.explanation
        modes = {mode for offer in trial.offers for mode in offer.cause.modes}
        lasting = [c for c in after.causes if cause_key(c) not in state.idle and modes & {*c.modes}]
        editable = {_function_of(c) for c in lasting if state.has_edit(c)}
        staying = {at: c for c in lasting if (at := _function_of(c)) not in editable}
        gains = before.default != after.default or before.fullgraph.ok or after.fullgraph.ok
        if gains or not all(_function_of(offer.cause) in staying for offer in trial.offers):
            break
        idle, why = dict(state.idle), ""
        for offer in trial.offers:
            cause = staying[_function_of(offer.cause)]
            idle[cause_key(offer.cause)] = cause_key(cause)
            why = f"no graphs are joined while `{cause.expression}` breaks the same function"
        checks = (*trial.proof.checks, Check("causes", False, why))
        proof = replace(trial.proof, state=ProofState.FAILED, checks=checks)
        state = state.with_trial(index, replace(trial, accepted=False, proof=proof))
        state = state.with_proof_state((o.key for o in trial.offers), ProofState.FAILED)
        state = replace(state, program=parent, idle=idle)
    return state


def _function_of(cause: Cause) -> tuple[str, str]:
    return cause.position.file, cause.position.function


def _try_together(
    state: SearchState, offers: Sequence[Offer], level: Applicability, runs: ProgramRuns
) -> SearchState:
    """Prove and apply all offers that do not overlap as one edit; if that fails, one by one.

    Return the new state. `level` is the least safe applicability that an edit may have.
    """
    texts, together = apply_offers(offers)
    if not together:
        return state
    after = try_edits(state, texts, together, level, runs)
    if after.program is not state.program or len(together) == 1:
        return after
    if after.one_sided != state.one_sided:
        rest = [offer for offer in offers if not after.is_one_sided(offer)]
        return _try_together(after, rest, level, runs)
    for offer in together:
        if runs.is_late():
            break
        file = offer.document.file
        if after.program.texts.get(file, after.originals[file]) == offer.document.text:
            after = try_edits(after, {file: offer.text}, [offer], level, runs)
    return after


def try_edits(
    state: SearchState,
    texts: Texts,
    offers: Sequence[Offer],
    level: Applicability,
    runs: ProgramRuns,
    chain: EditChain | None = None,
) -> SearchState:
    """Prove `offers`, and apply them if the proof holds and they reduce the causes.

    `texts` are the files with these edits. `chain` is the edit chain that `offers` extend; None if
    they begin one. An edit that replaces its cause by a new one is kept only if further edits
    remove that, too. If several offers fail, the returned state has the same program and no new
    trial: the caller tries each alone, or without those that are one-sided.
    """
    program = state.program
    new = {**program.texts, **texts}
    chain = chain or EditChain(program.explanation)
    mended = [offer.cause for offer in offers]
    costly = [offer.cause for offer in offers if offer.rewrite.needs_both_branches]
    replaced = False

    def is_allowed(proof: Proof) -> bool:
        return proof.whole or (proof.holds and level is Applicability.UNSAFE)

    proof, explanation = prove_and_explain(program, new, offers, runs, is_allowed)
    allowed = is_allowed(proof)
    if proof.holds and not allowed:
        state = replace(state, one_sided=state.one_sided | set(_one_sided_causes(offers, proof)))
    if allowed:
        check = check_causes(chain.start, explanation, mended, costly)
        replaced = not check.ok and replaces_causes(chain.start, explanation, mended)
        result = proof.state if check.ok or replaced else ProofState.FAILED
        proof = replace(proof, state=result, checks=(*proof.checks, check))
    accepted = allowed and proof.holds
    if len(offers) > 1 and (replaced or not accepted):
        return state
    keys = {offer.key for offer in offers}
    index = len(state.trials)
    trial = EditTrial(tuple(offers), proof, accepted)
    state = state.with_trial(index, trial)
    if accepted:
        state = replace(state, program=EditedProgram(new, explanation, program, index))
    if replaced and accepted:
        longer = replace(chain, remaining=chain.remaining - 1)
        after = _extend_chain(state, longer, level, runs)
        if after.program is not state.program:
            check = check_causes(chain.start, after.program.explanation, mended, costly)
            trial = replace(trial, proof=replace(proof, checks=(*proof.checks[:-1], check)))
        else:
            ended = ProofState.TIME_UP if runs.is_late() else ProofState.FAILED
            trial = EditTrial(trial.offers, replace(proof, state=ended), accepted=False)
            after = replace(after, program=program)
            if level is Applicability.SAFE and not runs.is_late():
                after = replace(after, deferred=after.deferred | keys)
        state = after.with_trial(index, trial)
    state = state.with_proof_state(keys, trial.proof.state)
    if level is Applicability.UNSAFE:
        state = replace(state, deferred=state.deferred - keys)
    return state


def prove_and_explain(
    program: EditedProgram,
    texts: Texts,
    offers: Sequence[Offer],
    runs: ProgramRuns,
    is_allowed: Callable[[Proof], bool],
) -> tuple[Proof, Explanation]:
    """Prove `offers`, which make `texts` of `program`; if the proof is allowed, explain the texts.

    Else the explanation is that of `program`. If the time is up before both ended, so says the
    proof.
    """
    try:
        proof = runs.prove(program.texts, texts, offers)
        return proof, runs.explain(texts, offers) if is_allowed(proof) else program.explanation
    except TimeUp:
        return Proof(ProofState.TIME_UP), program.explanation


def _one_sided_causes(offers: Sequence[Offer], proof: Proof) -> Iterator[CauseKey]:
    """Yield the causes of the offers with a condition that had one value on every input."""
    branches = iter(proof.branches)
    for offer in offers:
        touched = list(islice(branches, len(offer.tests)))
        if not all(one.are_known for one in touched):
            yield cause_key(offer.cause)


def _extend_chain(
    state: SearchState, chain: EditChain, level: Applicability, runs: ProgramRuns
) -> SearchState:
    """Apply one more edit to `chain`, for a cause that the last edit of the chain added.

    The edit must be proved, and together with the chain it must reduce the causes. If there is
    none, the returned state has the same program.
    """
    if chain.remaining < 0:
        return state
    offers_before = state.offers
    known = {cause_key(cause) for cause in chain.start.causes}
    try:
        found = runs.propose(state.program)
    except TimeUp:
        return state
    state = state.with_offers(found)
    for one in found:
        offer = None if cause_key(one.cause) in known else state.best_offer(one, level)
        if offer is not None:
            texts = {offer.document.file: offer.text}
            after = try_edits(state, texts, [offer], level, runs, chain)
            if after.program is not state.program:
                return after
            state = after
    return replace(state, offers=offers_before)
