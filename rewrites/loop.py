"""The loop of `fix`: offers are applied in memory, proved, explained again, kept if they help."""

from __future__ import annotations

import difflib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import is_user_code, override_sources, read_source
from fullgraph.diagnose.explain import explanations
from fullgraph.diagnose.explanation import Cause, Explanation
from fullgraph.rewrites.analysis.observed import Facts, observe
from fullgraph.rewrites.fixes import Suggestion, Unfixed, unified
from fullgraph.rewrites.gains import Ahead, Name, helps, name, turns
from fullgraph.rewrites.offers import Offer, Offers, apply, propose, watched
from fullgraph.rewrites.proof.config_trial import Switched, switched
from fullgraph.rewrites.proof.proof import Proof, State
from fullgraph.rewrites.proof.prove import prove
from fullgraph.rewrites.rule import Applicability, Rule

UNMASK_SECONDS = 30.0
"""How long each explanation may look behind causes."""
PROOF_SECONDS = 10.0
"""The least time a proof is given, also when time is up."""


@dataclass(frozen=True)
class Step:
    """What `fix` is doing, for whoever waits."""

    what: str
    """"proving FG301 at line 12"."""
    seconds: float
    """Since the start."""


@dataclass
class Stage:
    """The program with some edits, and how it came to them."""

    texts: dict[str, str]
    """The new texts of edited files, by path."""
    explanation: Explanation
    before: tuple[Stage, Tried] | None = None
    """The stage before the last edit, and that edit."""


@dataclass
class Tried:
    """Offers that were tried at once, and what came of it."""

    offers: tuple[Offer, ...]
    proof: Proof
    accepted: bool


@dataclass
class Loop:
    """One call of `fix`. `stage` is what it has come to."""

    subject: Program
    rules: Sequence[Rule]
    rounds: int
    seconds: float
    progress: Callable[[Step], object] | None = None
    originals: dict[str, str] = field(default_factory=dict)
    """The texts of files that an edit was offered for, as they are on disk."""
    _start: float = field(default_factory=time.monotonic)
    _tried: list[Tried] = field(default_factory=list)
    _fared: dict[tuple[str, str], State] = field(default_factory=dict)
    """How a rule and the text it leads to fared: nothing fails twice."""
    _waiting: set[tuple[str, str]] = field(default_factory=set)
    """Edits that bring another cause, which no safe edit takes away."""
    _answers: dict[Name, Offers] = field(default_factory=dict)
    _ideas: dict[tuple[Name, str], Proof] = field(default_factory=dict)
    """How the settings fared that were suggested for a cause, by the rule that did."""

    def begin(self) -> Stage:
        """The program without edits."""
        return Stage({}, self._explained({}))

    def improved(self, stage: Stage, level: Applicability) -> Stage:
        """`stage` with every edit of at most `level` that was proved and helps."""
        for _ in range(self.rounds):
            if self._late() or stage.explanation.error or not stage.explanation.causes:
                break
            offers = [o for o in (self._best(one, level) for one in self._offers(stage)) if o]
            known = len(self._tried)
            better = self._with(stage, offers, level)
            if better is stage and len(self._tried) == known:
                break
            stage = better
        return stage

    def under_inductor(self, stage: Stage) -> Stage:
        """`stage`, without its last edits as long as Inductor makes something else of it."""
        while stage.before is not None:
            self._tell("running under Inductor")
            numbers = any(o.rewrite.numbers for t in self._tried for o in t.offers if t.accepted)
            proof = prove(
                self.subject,
                stage.texts,
                seconds=self._left(),
                inductor=True,
                numbers=numbers,
                strict=False,
            )
            if proof.state is not State.FAILED:
                break
            stage, tried = stage.before
            tried.accepted, tried.proof = False, proof
            keys = {(offer.rule.code, offer.text) for offer in tried.offers}
            self._fared |= dict.fromkeys(keys, State.FAILED)
        return stage

    def try_settings(self, stage: Stage) -> None:
        """Prove the ideas that are settings for what stays in `stage`, each by itself."""
        known: dict[str, Switched] = {}
        for cause in stage.explanation.causes:
            answer = self._answers.get(name(cause))
            for offer in answer.offers if answer is not None else ():
                settings = offer.rewrite.settings
                if not settings or self._late():
                    continue
                key = repr(dict(settings))
                if key not in known:
                    self._tell(f"trying {', '.join(settings)}")
                    known[key] = switched(
                        settings,
                        partial(self._explained, stage.texts),
                        partial(self._proved_again, stage.texts),
                    )
                check = partial(helps, stage.explanation, mended=[cause])
                self._ideas[name(cause), offer.rule.code] = known[key].mends(check)

    def _proved_again(self, texts: Mapping[str, str]) -> Proof:
        return prove(self.subject, texts, base=texts, seconds=self._left())

    def suggestions(self) -> list[Suggestion]:
        """Every offer that was tried, with its last proof, then the ideas."""
        found: dict[tuple[str, int, Name], Suggestion] = {}
        for tried in self._tried:
            for offer in tried.offers:
                made = self._suggestion(offer, tried.proof, tried.accepted)
                found[made.rule, made.line, name(offer.cause)] = made
        mended = {key[2] for key, made in found.items() if made.accepted}
        for cause, answer in self._answers.items():
            for offer in answer.offers:
                if offer.rewrite.applicability is Applicability.DISPLAY and cause not in mended:
                    proof = self._ideas.get((cause, offer.rule.code), Proof(State.NOT_RUN))
                    made = self._suggestion(offer, proof, False)
                    found.setdefault((made.rule, made.line, cause), made)
        return list(found.values())

    def unfixed(self, stage: Stage) -> list[Unfixed]:
        """The causes that stay, and why."""
        return [
            Unfixed(
                cause.expression,
                cause.category,
                cause.position.file,
                self._original_line(cause.position.file, cause.position.line, stage.texts),
                self._why(cause),
            )
            for cause in stage.explanation.causes
        ]

    # How it goes on.

    def _offers(self, stage: Stage) -> list[Offers]:
        """What the rules offer now, by the facts of one run in eager."""
        self._tell("looking at values")
        causes = [c for c in stage.explanation.causes if is_user_code(c.position.file)]
        with override_sources(stage.texts):
            outcome = run_isolated(
                lambda emit: observe(
                    lambda: self.subject.run(self.subject.target), tuple(watched(causes))
                ),
                objects=self.subject.objects(),
            )
            found = propose(causes, outcome.value or Facts(), self.rules)
        for one in found:
            self._answers[name(one.cause)] = one
            for offer in one.offers:
                self.originals.setdefault(offer.document.file, offer.document.text)
        return found

    def _best(self, found: Offers, level: Applicability) -> Offer | None:
        """The first offer for a cause that may be tried at `level` and has not failed."""
        unsafe = level is Applicability.UNSAFE
        for offer in found.offers:
            key = (offer.rule.code, offer.text)
            fared = self._fared.get(key)
            if key in self._waiting:
                if not unsafe:
                    continue
                fared = None
            allowed = offer.rewrite.applicability is Applicability.SAFE or (
                unsafe and offer.rewrite.applicability is Applicability.UNSAFE
            )
            if allowed and (fared is None or (unsafe and fared is not State.FAILED)):
                return offer
        return None

    def _with(self, stage: Stage, offers: Sequence[Offer], level: Applicability) -> Stage:
        """`stage` with as many of the offers as are fine; `stage` itself if none is."""
        texts, together = apply(offers)
        if not together:
            return stage
        better = self._settled(stage, texts, together, level)
        if better is not stage or len(together) == 1:
            return better
        for offer in together:
            with override_sources(better.texts):
                source = read_source(offer.document.file)
            if source is not None and source.text == offer.document.text:
                better = self._settled(better, {offer.document.file: offer.text}, [offer], level)
        return better

    def _settled(
        self,
        stage: Stage,
        texts: Mapping[str, str],
        offers: Sequence[Offer],
        level: Applicability,
        ahead: Ahead | None = None,
    ) -> Stage:
        """The stage after `offers` if they are proved and help, else `stage`.

        An edit that takes its cause away and brings another one helps together with an edit that
        takes that one away.
        """
        new = {**stage.texts, **texts}
        what = ", ".join(f"{offer.rule.code} at line {offer.at.line}" for offer in offers)
        self._tell(f"proving {what}")
        proof = prove(
            self.subject,
            new,
            base=stage.texts,
            tests=_tests(offers),
            seconds=self._left(),
            numbers=any(offer.rewrite.numbers for offer in offers),
            strict=all(offer.rewrite.applicability is Applicability.SAFE for offer in offers),
        )
        ahead = ahead or Ahead(stage.explanation)
        mended = [offer.cause for offer in offers]
        explanation, turned = stage.explanation, False
        if proof.holds:
            self._tell(f"explaining after {what}")
            explanation = self._explained(new)
            check = helps(ahead.start, explanation, mended)
            turned = turns(ahead.start, explanation, mended) and not check.ok
            state = proof.state if check.ok or turned else State.FAILED
            proof = replace(proof, state=state, checks=(*proof.checks, check))
        keys = {(offer.rule.code, offer.text) for offer in offers}
        accepted = proof.whole or (proof.holds and level is Applicability.UNSAFE)
        if len(offers) > 1 and (turned or not accepted):
            return stage  # each is tried by itself
        tried = Tried(tuple(offers), proof, accepted)
        self._tried.append(tried)
        last = Stage(new, explanation, (stage, tried))
        if turned and accepted:
            last = self._further(last, replace(ahead, steps=ahead.steps - 1), level)
            tried.accepted = accepted = last.texts is not new
            if accepted:
                check = helps(ahead.start, last.explanation, mended)
                tried.proof = replace(proof, checks=(*proof.checks[:-1], check))
            else:
                tried.proof = replace(proof, state=State.FAILED)
                self._waiting |= keys if level is Applicability.SAFE else set()
        self._fared |= dict.fromkeys(keys, tried.proof.state)
        if level is Applicability.UNSAFE:
            self._waiting -= keys
        return last if accepted else stage

    def _further(self, stage: Stage, ahead: Ahead, level: Applicability) -> Stage:
        """`stage` with an edit for a cause that the last edit brought; `stage` if there is none."""
        if ahead.steps < 0 or self._late():
            return stage
        answers = dict(self._answers)
        old = {name(cause) for cause in ahead.start.causes}
        for one in self._offers(stage):
            offer = self._best(one, level) if name(one.cause) not in old else None
            if offer is not None:
                texts = {offer.document.file: offer.text}
                better = self._settled(stage, texts, [offer], level, ahead)
                if better is not stage:
                    return better
        self._answers = answers
        return stage

    def _explained(self, texts: Mapping[str, str]) -> Explanation:
        with override_sources(texts):
            (last,) = deque(explanations(self.subject, seconds=UNMASK_SECONDS), maxlen=1)
        return last

    # What it says.

    def _suggestion(self, offer: Offer, proof: Proof, accepted: bool) -> Suggestion:
        applicability = offer.rewrite.applicability
        if applicability is Applicability.SAFE and not proof.whole:
            applicability = Applicability.UNSAFE
        document = offer.document
        return Suggestion(
            offer.rule.code,
            offer.rule.name,
            document.file,
            _line_before(self.originals[document.file], document.text, offer.at.line),
            offer.cause.category,
            offer.cause.expression,
            offer.rewrite.why,
            applicability,
            tuple(dict.fromkeys((*offer.rewrite.assumes, *proof.assumes))),
            proof,
            unified(document.file, document.text, offer.text),
            accepted,
            offer.rewrite.numbers,
        )

    def _why(self, cause: Cause) -> str:
        failed = [
            f"{offer.rule.code} was tried and failed its proof: {tried.proof.reason}"
            for tried in self._tried
            for offer in tried.offers
            if name(offer.cause) == name(cause) and not tried.accepted
        ]
        if failed:
            return failed[-1]
        if not is_user_code(cause.position.file):
            return "it lies in torch or in Python itself"
        answer = self._answers.get(name(cause))
        told = list(answer.refusals[:1]) if answer is not None else []
        if answer is not None and answer.offers:
            told.append(f"only a person can decide: {answer.offers[0].rewrite.why}")
        return "; ".join(told) or f"no rule mends this kind of cause ({cause.category})"

    def _original_line(self, file: str, line: int, texts: Mapping[str, str]) -> int:
        if file not in texts:
            return line
        return _line_before(self.originals[file], texts[file], line)

    def _tell(self, what: str) -> None:
        if self.progress is not None:
            self.progress(Step(what, time.monotonic() - self._start))

    def _left(self) -> float:
        return max(PROOF_SECONDS, self.seconds - (time.monotonic() - self._start))

    def _late(self) -> bool:
        return time.monotonic() - self._start > self.seconds


def _tests(offers: Iterable[Offer]) -> list[Position]:
    return [o.document.position(test) for o in offers for test in o.rewrite.tests]


def _line_before(original: str, text: str, line: int) -> int:
    """The line of `original` that became `line` of `text`, or the one it was put behind."""
    if original == text:
        return line
    matcher = difflib.SequenceMatcher(
        None, original.splitlines(), text.splitlines(), autojunk=False
    )
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        if new_start <= line - 1 < new_end:
            return min(start + (line - 1 - new_start), max(start, end - 1)) + 1
    return line
