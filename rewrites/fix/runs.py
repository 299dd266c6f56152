"""What `fix` asks of a program with edited texts, each question answered once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from fullgraph.compiler.isolation import Deadline, TimeUp
from fullgraph.compiler.private import patch_config
from fullgraph.compiler.program import Program
from fullgraph.diagnose.explain import TRACED, explanations
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.fix.causes import CauseKey, cause_key, staying_causes
from fullgraph.rewrites.fix.edited_program import EditedProgram, Texts
from fullgraph.rewrites.fix.kept_answers import KeptAnswers
from fullgraph.rewrites.fix.offers import Offer, Offers, apply_offers, exempted, names_of
from fullgraph.rewrites.fix.program_facts import changes_when_repeated, propose_with_facts
from fullgraph.rewrites.fix.settings import CompileSetting, Config
from fullgraph.rewrites.proof import (
    Check,
    Proof,
    RunCache,
    check_compiled,
    key_of,
    override_program,
    prove,
    verify_inductor,
)
from fullgraph.rewrites.rule import Applicability, Rule

T = TypeVar("T")
NOT_PROVED = "not proved yet"


@dataclass(frozen=True)
class OfferedEdit:
    """An edit that a rule offers, before the end of `fix`."""

    rule: str
    file: str
    line: int
    diff: str
    """The edit alone, as a unified diff."""
    state: str
    """"not proved yet", or how its last proof ended: "proved in eager", "failed: …"."""


UNMASK_SECONDS = 30.0
"""Time limit for each explanation to look for hidden causes; at most a quarter of what is left."""


class ProgramRuns:
    """Explains a program, asks the rules about it, proves edits and compiles the result.

    `report` is told of each run before it begins. A search has at most `rounds` rounds. With
    `inductor`, edited programs run under Inductor, too. What `kept` holds of earlier runs is not
    run again. Every method that runs the program raises `TimeUp` if `deadline` ends the run.
    """

    def __init__(
        self,
        program: Program,
        rules: Sequence[Rule],
        deadline: Deadline,
        report: Callable[[str], object],
        *,
        rounds: int,
        inductor: bool,
        kept: KeptAnswers | None = None,
    ) -> None:
        self.program, self.rules, self.deadline = program, rules, deadline
        self.rounds, self.inductor = rounds, inductor
        self.interrupt: KeyboardInterrupt | None = None
        """Ctrl-C during a run, after which the time is up."""
        self.compiler_failure = ""
        """How the compiler fails on the original as on an edited program; "" if it does not."""
        self.offered: dict[tuple[str, CauseKey], OfferedEdit] = {}
        """By rule and cause, the edits offered so far: of each cause the first, and those tried."""
        self._report, self._kept = report, kept
        self._cache = RunCache()
        self._steps: dict[Hashable, Sequence[Offer]] = {}
        """By texts, the offers that make them of the original in one step."""
        self._compiled: set[Hashable] = set()
        """The texts that ran compiled."""
        self._granted: dict[Hashable, frozenset[str]] = {}
        """By texts, what all edits that they have may change."""

    def is_late(self) -> bool:
        """Return whether the time is up."""
        return self.deadline.is_over

    def explanations(self) -> Generator[Explanation]:
        """Yield the partial explanations of the original, the whole one last."""
        question = "explanation", key_of({})
        self._report("explaining")
        if (known := self._find(question)) is not None:
            yield known
            return
        for found in self._explain({}):
            yield found
        self._keep(question, found)

    def explain(self, texts: Texts, offers: Sequence[Offer]) -> Explanation:
        """Return the explanation of the program with `texts`, which `offers` made."""
        step = f"explaining after {names_of(offers)}"
        return self._ask(("explanation", key_of(texts)), lambda: self._whole(step, texts))

    def propose(self, edited: EditedProgram) -> list[Offers]:
        """Return the offers for the causes of an edited program."""

        def ask_rules() -> list[Offers]:
            self._report("recording eager values")
            found = propose_with_facts(self.program, edited, self.rules, self.deadline)
            firsts = ([o for o in one.offers if o.rewrite.replacements][:1] for one in found)
            self._show([offer for first in firsts for offer in first])
            return found

        question = "offers", key_of(edited.texts), edited.explanation.causes
        return self._cache.ask(question, lambda: self._run(ask_rules))

    def prove(self, base: Texts, texts: Texts, offers: Sequence[Offer]) -> Proof:
        """Prove that `texts`, made from `base` by all of `offers`, behave as `base` does."""
        key = key_of(texts)
        self._granted[key] = self._granted_to(base) | exempted(offers)
        if not base:
            self._steps[key] = offers

        rewrites = [offer.rewrite for offer in offers]
        options: dict[str, Any] = {
            "as_compiled": _as_compiled(texts, offers),
            "tests": [test for offer in offers for test in offer.tests],
            "both": [test for offer in offers for test in offer.needed_tests],
            "numbers": any(rewrite.numbers for rewrite in rewrites),
            "strict": all(rewrite.applicability is Applicability.SAFE for rewrite in rewrites),
            "exempt": sorted(exempted(offers) | self._granted_to(base) - {"randomness"}),
        }

        def run() -> Proof:
            self._report(f"proving {names_of(offers)}")
            limits: dict[str, Any] = {"deadline": self.deadline, "cache": self._cache}
            return prove(self.program, texts, base=base, **options, **limits)

        proof = self._ask(("proof", key_of(base), key, _key(options)), run)
        if proof.holds or len(offers) == 1:  # else each is tried alone
            self._show(offers, proof)
        return proof

    def check_compiled(self, texts: Texts, offers: Sequence[Offer]) -> Check:
        """Check that `texts`, made by `offers`, behave compiled as they do in eager.

        They run under AOTAutograd, with a backward if the program trains, and under Inductor. Those
        of more than one step are compared with the original, too. A failure that the original has
        is no failure of the edits.
        """
        inductor = self.inductor and not self._runs_whole(texts, offers)
        one_step = key_of(texts) in self._steps
        options: dict[str, Any] = {
            "as_compiled": _as_compiled(texts, self._steps.get(key_of(texts), ())),
            "inductor": inductor,
            "whole": not one_step,
            "numbers": any(offer.rewrite.numbers for offer in offers),
            "exempt": tuple(sorted(exempted(offers))),
        }

        def run() -> Check:
            self._report(f"running under {'Inductor' if inductor else 'AOTAutograd'}")
            limits: dict[str, Any] = {"deadline": self.deadline, "cache": self._cache}
            return check_compiled(self.program, texts, **options, **limits)

        check = self._ask(("compiled", key_of(texts), _key(options)), run)
        self._compiled.add(key_of(texts))
        self.compiler_failure = self.compiler_failure or (check.detail if check.ok else "")
        return check

    def has_compiled(self, texts: Texts) -> bool:
        """Return whether `texts` ran compiled, under Inductor if that is wanted."""
        return key_of(texts) in self._compiled

    def check_fullgraph(self, texts: Texts, offers: Sequence[Offer]) -> Check:
        """Run `texts`, made by `offers`, under `fullgraph=True` with Inductor."""

        def run() -> Check:
            self._report("running under fullgraph=True with Inductor")
            return verify_inductor(
                self.program,
                self.deadline,
                exempt=exempted(offers),
                texts=texts,
                cache=self._cache,
            )

        granted = tuple(sorted(exempted(offers)))
        return self._ask(("fullgraph", key_of(texts), granted), run)

    def explain_with_setting(self, setting: CompileSetting, texts: Texts) -> Explanation:
        """Return the explanation of the program with `texts` and a setting of its caller."""
        question = "explanation", key_of(texts), str(setting)
        with patch_config(setting.config):
            program = setting.of(self.program)
            return self._ask(question, lambda: self._whole(f"trying {setting}", texts, program))

    def changes_when_repeated(self, texts: Texts) -> bool:
        """Return whether a first call of the program with `texts` does more than a second one."""

        def run() -> bool:
            with override_program(self.program.target, texts):
                return changes_when_repeated(self.program, self.deadline)

        return self._ask(("repeated", key_of(texts)), run)

    def verify_setting(
        self, setting: CompileSetting, texts: Texts, offers: Sequence[Offer]
    ) -> Check:
        """Compare a run with a setting, of `texts` made by `offers`, with eager."""

        def run() -> Check:
            self._report(f"running with {setting}{' under Inductor' if self.inductor else ''}")
            return verify_inductor(
                setting.of(self.program),
                self.deadline,
                fullgraph=False,
                exempt=exempted(offers),
                original=self.program if setting.tensors or setting.warm_up else None,
                backend="inductor" if self.inductor else "eager",
                texts=texts,
            )

        with patch_config(setting.config):
            granted = tuple(sorted(exempted(offers)))
            question = "setting", key_of(texts), str(setting), self.inductor, granted
            return self._ask(question, run)

    def explain_with_config(
        self, config: Config, edited: EditedProgram, causes: Sequence[Cause]
    ) -> Explanation:
        """Explain with a setting; stop early once none of `causes` can be removed by it."""

        def run() -> Explanation:
            self._report(f"trying {', '.join(config)}")
            with closing(self._explain(edited.texts)) as steps:
                for found in steps:
                    if len(staying_causes(edited.explanation, found, causes)) == len(causes):
                        break
            return self._in_time(found)

        with patch_config(config):
            places = tuple(cause.position for cause in causes)
            return self._ask(("explanation", key_of(edited.texts), repr(config), places), run)

    def prove_with_config(self, config: Config, texts: Texts) -> Proof:
        """Prove that a setting changes nothing of what the program with `texts` does."""

        def run() -> Proof:
            self._report(f"proving {', '.join(config)}")
            exempt = self._granted_to(texts) - {"randomness"}
            return prove(self.program, texts, base=texts, deadline=self.deadline, exempt=exempt)

        with patch_config(config):
            granted = tuple(sorted(self._granted_to(texts)))
            return self._ask(("proof", key_of(texts), repr(config), granted), run)

    def _ask(self, question: Hashable, run: Callable[[], T]) -> T:
        """Return the answer to `question` that this run or an earlier one has; else call `run`."""

        def find() -> T:
            known: T | None = self._find(question)
            if known is not None:
                return known
            answer = self._run(run)
            self._keep(question, answer)
            return answer

        return self._cache.ask(question, find)

    def _find(self, question: Hashable) -> Any:
        """Return the answer to `question` that an earlier run has kept; None if there is none."""
        return self._kept.find(question) if self._kept is not None else None

    def _keep(self, question: Hashable, answer: object) -> None:
        """Keep an answer for later runs, unless more time might have changed it."""
        if self._kept is not None and not self._may_be_cut(answer):
            self._kept.keep(question, answer)

    def _run(self, run: Callable[[], T]) -> T:
        """Return `run()`; if Ctrl-C ends it, the time is up for all that would follow."""
        try:
            return run()
        except KeyboardInterrupt as interrupt:
            self.interrupt = interrupt
            self.deadline = Deadline(0.0)
            raise TimeUp from None

    def _may_be_cut(self, answer: object) -> bool:
        """Return whether an answer is an explanation that more time might have changed."""
        left = self.deadline.left()
        short = left is not None and left / 4 < UNMASK_SECONDS
        if not isinstance(answer, Explanation):
            return self.deadline.is_over
        searched = answer.hidden_search == "seconds"
        return self.deadline.is_over or (searched and short) or answer.error is not None

    def _runs_whole(self, texts: Texts, offers: Sequence[Offer]) -> bool:
        """Return whether edited texts are one graph in both modes and run so under Inductor.

        That run includes the one in default mode: the graph is the same.
        """
        after = self.explain(texts, offers)
        if after.default.breaks or after.recompiles or not after.fullgraph.ok:
            return False
        return self.check_fullgraph(texts, offers).ok

    def _show(self, offers: Sequence[Offer], proof: Proof | None = None) -> None:
        """Note offers in `offered`, with how their proof ended if it ran."""
        for offer in offers:
            key = offer.rule.code, cause_key(offer.cause)
            if key not in self.offered or proof is not None:
                state = NOT_PROVED if proof is None else _state_of(proof)
                file, line = offer.document.file, offer.at.line
                self.offered[key] = OfferedEdit(offer.rule.code, file, line, offer.diff, state)

    def _granted_to(self, texts: Texts) -> frozenset[str]:
        return self._granted.get(key_of(texts), frozenset())

    def _whole(self, step: str, texts: Texts, program: Program | None = None) -> Explanation:
        """Return the explanation of the program with `texts`; `step` is what to report."""
        self._report(step)
        (last,) = deque(self._explain(texts, program), maxlen=1)
        return self._in_time(last)

    def _in_time(self, explanation: Explanation) -> Explanation:
        """Return `explanation`; raise `TimeUp` if the deadline may have cut it short."""
        if self.deadline.is_over:
            raise TimeUp
        return explanation

    def _explain(self, texts: Texts, program: Program | None = None) -> Generator[Explanation]:
        """Yield the partial explanations of the program with `texts`, the whole one last."""
        program, left = program or self.program, self.deadline.left()
        seconds = UNMASK_SECONDS if left is None else min(UNMASK_SECONDS, left / 4)
        with override_program(program.target, texts):
            traced = 1.0 if texts else TRACED  # edited, it is known to end in eager
            yield from explanations(program, seconds=seconds, deadline=self.deadline, traced=traced)


def _key(options: Mapping[str, Any]) -> Hashable:
    """Return the options of a proof or a check as a part of a question."""
    return repr({**options, "as_compiled": key_of(options["as_compiled"])})


def _as_compiled(texts: Texts, offers: Sequence[Offer]) -> Texts:
    """Return what compiled code runs of `texts`, which `offers` made."""
    differs = any(offer.as_compiled is not offer for offer in offers)
    compiled = apply_offers(offer.as_compiled for offer in offers)[0] if differs else {}
    return {**texts, **compiled}


def _state_of(proof: Proof) -> str:
    """Return in a few words how a proof ended."""
    if proof.whole:
        return "proved in eager"
    reason = proof.reason or f"it assumes that {', and that '.join(proof.assumes)}"
    return f"{'not safe' if proof.holds else 'failed'}: {reason}"
