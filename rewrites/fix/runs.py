"""What `fix` asks of a program with edited texts, each question answered once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import closing
from dataclasses import replace

from fullgraph.compiler.isolation import Deadline, TimeUp
from fullgraph.compiler.private import patch_config
from fullgraph.compiler.program import Program
from fullgraph.diagnose.explain import explanations
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.fix.causes import staying_causes
from fullgraph.rewrites.fix.edited_program import EditedProgram, Texts
from fullgraph.rewrites.fix.offers import Offer, Offers, apply_offers, exempted, names_of
from fullgraph.rewrites.fix.program_facts import propose_with_facts
from fullgraph.rewrites.fix.settings import CompileSetting, Config
from fullgraph.rewrites.proof import (
    Check,
    Proof,
    ProofState,
    RunCache,
    key_of,
    override_program,
    prove,
    share_failure,
    verify_inductor,
)
from fullgraph.rewrites.rule import Applicability, Rule

UNMASK_SECONDS = 30.0
"""Time limit for each explanation to look for hidden causes."""


class ProgramRuns:
    """Explains a program, asks the rules about it, proves edits and compiles the result.

    `report` is told of each run before it begins. With `inductor`, edited programs run under
    Inductor, too. Every method that runs the program raises `TimeUp` if `deadline` ends the run.
    """

    def __init__(
        self,
        program: Program,
        rules: Sequence[Rule],
        deadline: Deadline,
        report: Callable[[str], object],
        *,
        inductor: bool,
    ) -> None:
        self.program, self.rules, self.deadline = program, rules, deadline
        self.inductor = inductor
        self.compiler_failure = ""
        """How the compiler fails on the original as on an edited program; "" if it does not."""
        self.has_compiled = False
        """Whether an edited program ran compiled, as the last step of its proof."""
        self._report = report
        self._cache = RunCache()
        self._steps: dict[Hashable, Sequence[Offer]] = {}
        """By texts, the offers that make them of the original in one step."""
        self._granted: dict[Hashable, frozenset[str]] = {}
        """By texts, what all edits that they have may change."""

    def is_late(self) -> bool:
        """Return whether the time is up."""
        return self.deadline.is_over

    def explanations(self) -> Generator[Explanation]:
        """Yield the partial explanations of the original, the whole one last."""
        self._report("explaining")
        return self._explain({})

    def explain(self, texts: Texts, offers: Sequence[Offer]) -> Explanation:
        """Return the explanation of the program with `texts`, which `offers` made."""
        return self._cache.ask(
            ("explanation", key_of(texts)),
            lambda: self._whole(f"explaining after {names_of(offers)}", texts),
        )

    def propose(self, edited: EditedProgram) -> list[Offers]:
        """Return the offers for the causes of an edited program."""

        def ask_rules() -> list[Offers]:
            self._report("recording eager values")
            return propose_with_facts(self.program, edited, self.rules, self.deadline)

        return self._cache.ask(
            ("offers", key_of(edited.texts), edited.explanation.causes), ask_rules
        )

    def prove(self, base: Texts, texts: Texts, offers: Sequence[Offer]) -> Proof:
        """Prove that `texts`, made from `base` by all of `offers`, behave as `base` does."""
        self._report(f"proving {names_of(offers)}")
        key = key_of(texts)
        self._granted[key] = self._granted_to(base) | exempted(offers)
        if not base:
            self._steps[key] = offers
        return self._prove(base, texts, offers)

    def prove_compiled(self, texts: Texts, offers: Sequence[Offer]) -> Proof:
        """Prove that `texts`, made by `offers`, behave as the original does when they are compiled.

        They run under AOTAutograd, with a backward if the program trains, and under Inductor. A
        failure that the original has, too, is no failure of the edits.
        """
        whole = self.inductor and self._runs_whole(texts, offers)
        inductor = self.inductor and not whole
        self._report(f"running under {'Inductor' if inductor else 'AOTAutograd'}")
        key = key_of(texts)
        if key in self._steps:  # its runs in eager are known
            proof = self._prove({}, texts, self._steps[key], inductor=inductor, backward=True)
        else:
            proof = prove(
                self.program,
                texts,
                deadline=self.deadline,
                inductor=inductor,
                backward=True,
                numbers=any(offer.rewrite.numbers for offer in offers),
                strict=False,
                exempt=exempted(offers),
                cache=self._cache,
            )
        self.has_compiled = True
        shared = [check for check in proof.checks if check.name == "backward" and check.ok]
        self._note_failure(*shared)
        failed = [check for check in proof.checks if not check.ok]
        if [check.name for check in failed] != ["inductor"]:
            return proof
        original = self._cache.ask("original under Inductor", self._check_original)
        if not share_failure(original, failed[0]):
            return proof
        self._note_failure(original)
        return replace(proof, state=ProofState.PROVED)

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

        return self._cache.ask(("fullgraph", key_of(texts)), run)

    def explain_with_setting(self, setting: CompileSetting, texts: Texts) -> Explanation:
        """Return the explanation of the program with `texts` and a setting of its caller."""
        with patch_config(setting.config):
            return self._whole(f"trying {setting}", texts, setting.of(self.program))

    def verify_setting(
        self, setting: CompileSetting, texts: Texts, offers: Sequence[Offer]
    ) -> Check:
        """Compare a run with a setting, of `texts` made by `offers`, with eager."""
        self._report(f"running with {setting}{' under Inductor' if self.inductor else ''}")
        with patch_config(setting.config):
            return verify_inductor(
                setting.of(self.program),
                self.deadline,
                fullgraph=False,
                exempt=exempted(offers),
                original=self.program if setting.tensors or setting.warm_up else None,
                backend="inductor" if self.inductor else "eager",
                texts=texts,
            )

    def explain_with_config(
        self, config: Config, edited: EditedProgram, causes: Sequence[Cause]
    ) -> Explanation:
        """Explain with a setting; stop early once none of `causes` can be removed by it."""
        self._report(f"trying {', '.join(config)}")
        with patch_config(config), closing(self._explain(edited.texts)) as steps:
            for found in steps:
                if len(staying_causes(edited.explanation, found, causes)) == len(causes):
                    break
        return self._in_time(found)

    def prove_with_config(self, config: Config, texts: Texts) -> Proof:
        """Prove that a setting changes nothing of what the program with `texts` does."""
        self._report(f"proving {', '.join(config)}")
        exempt = self._granted_to(texts) - {"randomness"}
        with patch_config(config):
            return prove(self.program, texts, base=texts, deadline=self.deadline, exempt=exempt)

    def _prove(
        self,
        base: Texts,
        texts: Texts,
        offers: Sequence[Offer],
        *,
        inductor: bool = False,
        backward: bool = False,
    ) -> Proof:
        """Prove all edits of `offers`, which make `texts` of `base`, together."""
        rewrites = [offer.rewrite for offer in offers]
        differs = any(offer.as_compiled is not offer for offer in offers)
        compiled = apply_offers(offer.as_compiled for offer in offers)[0] if differs else {}
        return prove(
            self.program,
            texts,
            base=base,
            as_compiled={**texts, **compiled},
            inductor=inductor,
            backward=backward,
            cache=self._cache,
            tests=[test for offer in offers for test in offer.tests],
            deadline=self.deadline,
            numbers=any(rewrite.numbers for rewrite in rewrites),
            strict=all(rewrite.applicability is Applicability.SAFE for rewrite in rewrites),
            exempt=exempted(offers) | self._granted_to(base) - {"randomness"},
            both=[test for offer in offers for test in offer.needed_tests],
        )

    def _runs_whole(self, texts: Texts, offers: Sequence[Offer]) -> bool:
        """Return whether edited texts are one graph in both modes and run so under Inductor.

        That run includes the one in default mode: the graph is the same.
        """
        after = self.explain(texts, offers)
        if after.default.breaks or after.recompiles or not after.fullgraph.ok:
            return False
        return self.check_fullgraph(texts, offers).ok

    def _check_original(self) -> Check:
        self._report("running the original under Inductor")
        return verify_inductor(self.program, self.deadline, fullgraph=False, cache=self._cache)

    def _note_failure(self, *checks: Check) -> None:
        details = (self.compiler_failure, *(check.detail for check in checks))
        self.compiler_failure = next(filter(None, details), "")

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
        program = program or self.program
        with override_program(program.target, texts):
            yield from explanations(
                program,
                seconds=self.deadline.within(UNMASK_SECONDS).left() or 0.0,
                limit=self.deadline.left(),
            )
