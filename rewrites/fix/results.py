"""The result of `fix` as plain data."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from fullgraph.compiler.categories import Category
from fullgraph.compiler.sources import is_user_code, read_source
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.fix.causes import CauseKey, cause_key, recompile_causes
from fullgraph.rewrites.fix.offers import Offer, Offers
from fullgraph.rewrites.fix.recompile_edits import expert_advice
from fullgraph.rewrites.fix.recompiles import CheckedSetting
from fullgraph.rewrites.fix.search import SearchState
from fullgraph.rewrites.proof import Check, Proof, ProofState
from fullgraph.rewrites.rule import Applicability, Rule
from fullgraph.rewrites.rules import all_rules
from fullgraph.rewrites.source import unified_diff

NOT_RUN = "not run under Inductor"
ENDED = "ended the search before"
CAPTURED = "it breaks default mode alone, and `fullgraph=True` captures it"
"""The reason why a cause stays in a program that is one graph under `fullgraph=True`."""


@dataclass(frozen=True)
class Suggestion:
    """One rule's edit at one place, with its proof."""

    rule: str
    """The rule's code, "FG301"."""
    name: str
    file: str
    line: int
    """The line in the file as it is on disk, 1-based."""
    category: str
    """The category of the cause that the edit removes."""
    cause: str
    """The expression of that cause."""
    why: str
    applicability: Applicability
    """The applicability of the rule's edit; unsafe if a safe edit was not proved."""
    assumes: tuple[str, ...]
    proof: Proof
    diff: str
    """The edit alone, as a unified diff; "" for a setting."""
    accepted: bool
    """Whether the edit is in the result; an unsafe edit is only in the unsafe one."""
    numbers: bool = False
    """Whether scalars that the code keeps or returns become 0-d tensors."""
    replaced_by: str = ""
    """Code of the edit that stands in the place of this one in the unsafe result; "" for none."""


@dataclass(frozen=True)
class Unfixed:
    """A cause without an accepted edit, and the reason."""

    cause: str
    category: str
    file: str
    line: int
    reason: str
    """A clause that fits after "because"."""


@dataclass(frozen=True)
class FullgraphRun:
    """A run under `fullgraph=True` with Inductor, compared with eager."""

    edits: str
    """Edits that the program had: "none", "safe" or "unsafe" (safe ones too)."""
    check: Check


@dataclass(frozen=True)
class FixResult:
    """Suggestions with their proofs, and the program before and after the accepted edits."""

    torch: str
    target: str
    before: Explanation
    after: Explanation
    """With the safe, proved edits applied."""
    after_unsafe: Explanation
    """With the accepted unsafe edits applied, too."""
    whole: FullgraphRun | None = None
    """The run under `fullgraph=True` that succeeded with the fewest edits, else the last that
    failed. None if `fullgraph=True` never captures the program, or Inductor is switched off."""
    call_setting: CheckedSetting | None = None
    """A setting with which the program, edits included, breaks or recompiles less."""
    compiler_failure: str = ""
    """How Inductor fails on the unchanged program as on the edited one; "" if it does not."""
    suggestions: tuple[Suggestion, ...] = ()
    unfixed: tuple[Unfixed, ...] = ()
    """The causes that remain in `after_unsafe`."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """Texts on disk of the files with an offered edit, by path."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts of these files with the safe edits, by path."""
    texts_unsafe: Mapping[str, str] = field(default_factory=dict)
    """Texts of these files with the unsafe edits, too, by path."""
    subject: Callable[..., object] | None = field(default=None, repr=False, compare=False)
    """The module or function that was passed to `fix`."""
    ended_by: str = ""
    """What ended the work before all was tried: "the time limit", "Ctrl-C", or ""."""
    ran_compiled: bool = True
    """Whether the edited program ran under Inductor or AOTAutograd, as the last step of a proof."""
    reused: int = 0
    """How many explanations, proofs and checks were taken from earlier runs (`cache` of `fix`)."""

    @property
    def unproved(self) -> tuple[Suggestion, ...]:
        """The edits whose proof `ended_by` came before."""
        return tuple(s for s in self.suggestions if s.proof.state is ProofState.TIME_UP)

    @property
    def untried(self) -> tuple[Unfixed, ...]:
        """The causes for which `ended_by` came before any edit was known."""
        known = {s.cause for s in self.unproved}
        ended = self.ended_by and f"{self.ended_by} {ENDED}"
        return tuple(
            u for u in self.unfixed if ended and ended in u.reason and u.cause not in known
        )

    def diff(self, *, unsafe: bool = False) -> str:
        """Return all accepted edits as one unified diff; with `unsafe` the unsafe ones too."""
        texts = self.changed_texts(unsafe=unsafe)
        return "".join(
            unified_diff(file, self.originals[file], texts[file]) for file in sorted(texts)
        )

    def changed_texts(self, *, unsafe: bool) -> dict[str, str]:
        """Return the edited texts that differ from the originals, by path."""
        texts = self.texts_unsafe if unsafe else self.texts
        return {file: text for file, text in texts.items() if text != self.originals[file]}


_SuggestionKey = tuple[str, bool, int, CauseKey]
"""The rule's code, whether it is its shorter edit, the line and the cause."""


def list_suggestions(
    safe: SearchState,
    state: SearchState,
    idea_proofs: Mapping[tuple[CauseKey, str], Proof],
    whole: FullgraphRun | None = None,
    ended_by: str | None = None,
) -> tuple[Suggestion, ...]:
    """Return every offer that was tried, with its last proof, followed by the ideas.

    If something ended the search early, the best edit of each cause that stays and for which none
    was tried is listed, too.

    `safe` is the end of the search for safe edits, `state` that of the one for unsafe edits. A safe
    edit that an unsafe one replaces there follows it. `idea_proofs` holds the proofs of ideas that
    set configuration, by cause and rule code. An idea is listed once, for the first of its causes
    that stay, and none is listed if `whole`, the run under `fullgraph=True`, succeeded: nothing is
    left to decide then.
    """
    found = _list_tried(safe, state)
    explanation = state.program.explanation
    staying = {cause_key(one) for one in (*explanation.causes, *recompile_causes(explanation))}
    known: set[tuple[str, ProofState]] = set()
    captured = whole is not None and whole.check.ok
    tried = {cause for *_, cause in found}
    for cause, answer in state.offers.items():
        stays = cause in staying and not captured
        untried = stays and ended_by and cause not in tried
        for offer in [o for o in answer.offers if o.rewrite.replacements][:1] if untried else ():
            made = _make_suggestion(offer, Proof(ProofState.TIME_UP), False, state.originals)
            found[made.rule, offer.is_shorter, made.line, cause] = made
        for offer in answer.offers if stays else ():
            if offer.rewrite.applicability is Applicability.DISPLAY:
                proof = idea_proofs.get((cause, offer.rule.code), Proof(ProofState.NOT_RUN))
                made = _make_suggestion(offer, proof, False, state.originals)
                if (made.why, proof.state) not in known:
                    found.setdefault((made.rule, False, made.line, cause), made)
                known.add((made.why, proof.state))
    return tuple(found.values())


def _list_tried(safe: SearchState, state: SearchState) -> dict[_SuggestionKey, Suggestion]:
    """Return the offers that either search tried, with those that `state` replaces marked.

    A replaced edit follows the one in its place.
    """
    found, in_safe = _tried(state), _tried(safe)
    mended = {key[-1]: made.rule for key, made in found.items() if made.accepted}
    last = next(reversed(mended.values()), "")
    replaced = {
        key: replace(made, replaced_by=mended.get(key[-1], last))
        for key, made in in_safe.items()
        if made.accepted and not (key in found and found[key].accepted)
    }
    listed: dict[_SuggestionKey, Suggestion] = {}
    for key, made in {**in_safe, **found}.items():
        if key not in replaced:
            listed[key] = made
            beside = [k for k in replaced if made.accepted and k[-1] == key[-1]]
            listed |= {k: replaced[k] for k in beside if k not in listed}
    return {**listed, **{k: one for k, one in replaced.items() if k not in listed}}


def _tried(state: SearchState) -> dict[_SuggestionKey, Suggestion]:
    """Return the offers that a search tried, each with its last proof."""
    found: dict[_SuggestionKey, Suggestion] = {}
    for trial in state.trials:
        for offer in trial.offers:
            made = _make_suggestion(offer, trial.proof, trial.accepted, state.originals)
            found[made.rule, offer.is_shorter, made.line, cause_key(offer.cause)] = made
    return found


def list_unfixed(
    state: SearchState,
    rules: Collection[Rule],
    ended_by: str | None,
    whole: FullgraphRun | None = None,
    setting: CheckedSetting | None = None,
) -> tuple[Unfixed, ...]:
    """Return the causes of breaks that remain, then those of recompiles, each with the reason.

    Causes that `setting` removes are left out. `rules` are the selected rules; `ended_by` is what
    ended the search early, such as "the time limit", or None. `whole` is the run of the whole
    program under `fullgraph=True`: if it succeeded, this is the reason for every break.
    """
    captured = whole is not None and whole.check.ok
    remaining = state.program.explanation
    if setting is not None and setting.check.ok:
        remaining = setting.explanation
    keys = set(map(cause_key, remaining.causes))
    causes = [one for one in state.program.explanation.causes if cause_key(one) in keys]
    if setting is None or setting.base is state.program.explanation:
        roots = recompile_causes(remaining)
    else:
        roots = recompile_causes(state.program.explanation)
    return tuple(
        Unfixed(
            cause.expression,
            cause.category,
            cause.position.file,
            _line_on_disk(cause, state),
            CAPTURED
            if captured and cause in causes
            else _reason_unfixed(cause, state, rules, ended_by),
        )
        for cause in (*causes, *roots)
    )


def _make_suggestion(
    offer: Offer, proof: Proof, accepted: bool, originals: Mapping[str, str]
) -> Suggestion:
    """Return an offer with its proof as a suggestion.

    A safe edit becomes unsafe unless its proof is whole (`Proof.whole`), or the time was up before
    anything was found against it. `accepted` says whether
    the result has the edit; `originals` are the unedited texts by file.
    """
    applicability = offer.rewrite.applicability
    is_proved = proof.whole or proof.state is ProofState.TIME_UP
    if applicability is Applicability.SAFE and not is_proved:
        applicability = Applicability.UNSAFE
    document = offer.document
    return Suggestion(
        offer.rule.code,
        offer.rule.name,
        document.file,
        _line_before(originals[document.file], document.text, offer.at.line),
        offer.cause.category,
        offer.cause.expression,
        offer.rewrite.why,
        applicability,
        tuple(dict.fromkeys((*offer.rewrite.assumes, *proof.assumes))),
        proof,
        offer.diff,
        accepted,
        offer.rewrite.numbers,
    )


def _reason_unfixed(
    cause: Cause, state: SearchState, rules: Collection[Rule], ended_by: str | None
) -> str:
    """Return why a cause has no accepted edit, and what an expert would do about it.

    `rules` are the selected rules; `ended_by` is what ended the search early, such as "the time
    limit", or None.
    """
    if cause.category == Category.DISABLED.value:
        for offer in state.accepted:
            called = offer.at.function.rpartition(".")[2]
            if offer.rule.boundary and re.search(rf"\b{re.escape(called)}\(", cause.expression):
                return f"{offer.rule.code} left it: `{called}` runs in eager"
    reason = _reason_without_edit(cause, state, rules, ended_by)
    if advice := expert_advice(cause, state.program.explanation):
        return f"{reason}; an expert would {advice}"
    answer = state.offers.get(cause_key(cause))
    if answer is not None and _tells_what_to_do(answer, reason):
        return reason
    ways = [one.text for one in cause.advice if one.kind == "code"]
    return f"{reason}; try: {ways[0].rstrip('.')}" if ways else reason


def _tells_what_to_do(answer: Offers, reason: str) -> bool:
    """Whether `reason` has a refusal with a way out, "FG201: why: what to do", or a rule's idea.

    A setting for the whole process is none.
    """
    ways = [one for one in answer.refusals if one.count(": ") > 1]
    ways += [_idea_of(one) for one in answer.offers[:1] if one.rule.code != "FG901"]
    return any(way in reason for way in ways)


def _idea_of(offer: Offer) -> str:
    return offer.rewrite.why.partition(". Caveat: ")[0].rstrip(".")


def _reason_without_edit(
    cause: Cause, state: SearchState, rules: Collection[Rule], ended_by: str | None
) -> str:
    """Return why a cause has no accepted edit, as a clause.

    `rules` are the selected rules; `ended_by` is what ended the search early, such as "the time
    limit", or None.
    """
    failed = [
        f"{offer.rule.code} was tried and failed its proof: {trial.proof.reason}"
        for trial in state.trials
        for offer in trial.offers
        if cause_key(offer.cause) == cause_key(cause) and not trial.accepted
        if trial.proof.state is not ProofState.TIME_UP
    ]
    answer = state.offers.get(cause_key(cause))
    if failed:
        refusals = [one for one in answer.refusals if not one.startswith("FG9")] if answer else []
        edits = [one for one in failed if not one.startswith("FG9")]
        return "; ".join([*refusals[:1], (edits or failed)[-1]])
    if read_source(cause.position.file) is None:
        return f"the source of {cause.position.file} cannot be read"
    if not is_user_code(cause.position.file):
        return "it lies in torch or in Python itself"
    untried = [] if answer is None else [o for o in answer.offers if o.rewrite.replacements]
    if ended_by and (answer is None or untried):
        what = f"{untried[0].rule.code} was" if untried else "an edit was"
        return f"{ended_by} {ENDED} {what} tried"
    reasons = list(answer.refusals[:1]) if answer is not None else []
    if answer is not None and answer.offers:
        reasons.append(f"only a person can decide: {_idea_of(answer.offers[0])}")
    others = [r.code for r in all_rules() if cause.category in r.categories and r not in rules]
    if others and not reasons:
        return f"{', '.join(others)} may apply, and the selection of rules leaves it out"
    return "; ".join(reasons) or f"no rule fixes this kind of cause ({cause.category})"


def _line_on_disk(cause: Cause, state: SearchState) -> int:
    """Return the line of a cause in the file on disk."""
    file, line, texts = cause.position.file, cause.position.line, state.program.texts
    return _line_before(state.originals[file], texts[file], line) if file in texts else line


def _line_before(original: str, text: str, line: int) -> int:
    """Return the line of `original` that became `line` of `text`, or the nearest one above it."""
    if original == text:
        return line
    matcher = difflib.SequenceMatcher(
        None, original.splitlines(), text.splitlines(), autojunk=False
    )
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        if new_start <= line - 1 < new_end:
            return min(start + (line - 1 - new_start), max(start, end - 1)) + 1
    return line
