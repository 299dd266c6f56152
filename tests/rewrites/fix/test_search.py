"""The search for edits, on a fake program: no compiler runs."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import TimeUp
from fullgraph.rewrites.fix.captured_indices import search_index_edits
from fullgraph.rewrites.fix.causes import check_causes
from fullgraph.rewrites.fix.edited_program import EditedProgram
from fullgraph.rewrites.fix.offers import Offer, Offers
from fullgraph.rewrites.fix.pruning import search_with_boundaries, undo_uncompiled
from fullgraph.rewrites.fix.results import FullgraphRun
from fullgraph.rewrites.fix.search import SearchState, search_edits
from fullgraph.rewrites.proof import Branches, Check, Proof, ProofState, Seen
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule
from fullgraph.rewrites.source import parse_document
from tests.diagnose.report.explanations import CLEAN
from tests.text import block

SAFE, UNSAFE = Applicability.SAFE, Applicability.UNSAFE
PROVED = Proof(ProofState.PROVED)
WRONG = Proof(ProofState.FAILED, (Check("outputs", False, "other values"),))


def cause(expression):
    return SimpleNamespace(
        position=Position("f.py", 1),
        function="f",
        category="item",
        expression=expression,
        modes=("default", "fullgraph"),
    )


def explanation(text, breaks=None):
    """Every name that starts with `bad` in the text is a cause; `bad_loop` skips the frame."""
    words = [word for word in text.split() if word.startswith("bad")]
    if breaks is None:
        breaks = 1 if "bad_loop" in words else len(words)
    return SimpleNamespace(
        causes=tuple(cause(word) for word in words),
        error=None,
        crashes=(),
        recompiles=(),
        default=SimpleNamespace(graphs=breaks + 1, breaks=breaks),
        fullgraph=SimpleNamespace(ok=not words),
    )


def _bad_words(text):
    return text.count("bad")


@dataclass
class FakeProgram:
    """A text, and for each word in it what a rule would write instead."""

    text: str
    edits: dict
    wrong: tuple = ()
    """Words that fail a proof."""
    levels: dict = ()

    def text_of(self, texts):
        return texts.get("f.py", self.text)

    def propose(self, edited):
        document = parse_document("f.py", self.text_of(edited.texts))
        return [self._offers(document, one) for one in edited.explanation.causes]

    def _offers(self, document, one):
        nodes = [n for n in document.ranges if getattr(n, "value", "") == one.expression]
        if one.expression not in self.edits or not nodes:
            return Offers(one)
        new = nodes[0].with_changes(value=self.edits[one.expression])
        level = dict(self.levels).get(one.expression, SAFE)
        rule = Rule(f"FG-{one.expression}", "rule", frozenset(), lambda site: None)
        rewrite = Rewrite({nodes[0]: new}, "why", level)
        return Offers(one, (Offer(one, rule, rewrite, document, document.position(nodes[0])),))

    def prove(self, base, texts, offers):
        return WRONG if any(word in self.wrong for word in self.text_of(texts).split()) else PROVED

    def start(self):
        return SearchState(EditedProgram({}, explanation(self.text)))

    def runs(self, **changed):
        answers = {
            "propose": self.propose,
            "prove": self.prove,
            "check_compiled": lambda texts, offers: Check("compiled", True),
            "check_fullgraph": lambda texts, offers: Check("inductor", True),
            "explain": lambda texts, offers: explanation(self.text_of(texts)),
            "is_late": lambda: False,
            "inductor": True,
        }
        return SimpleNamespace(**answers | changed)

    def search(self, level=SAFE, state=None):
        return search_edits(state or self.start(), level, self.runs(), rounds=8)


def test_edits_that_do_not_overlap_are_proved_together():
    found = FakeProgram("bad1 + bad2", {"bad1": "good1", "bad2": "good2"}).search()
    assert found.program.texts == {"f.py": "good1 + good2"}
    assert [len(trial.offers) for trial in found.trials] == [2]


def test_where_edits_fail_together_each_is_tried_alone():
    program = FakeProgram("bad1 + bad2", {"bad1": "wrong", "bad2": "good2"}, wrong=("wrong",))
    found = program.search()
    assert found.program.texts == {"f.py": "bad1 + good2"}
    assert found.states["FG-bad1", "wrong + bad2"] is ProofState.FAILED


def test_an_edit_that_brings_a_cause_pays_with_the_edit_of_that_cause():
    found = FakeProgram("bad1", {"bad1": "bad2", "bad2": "good"}).search()
    assert found.program.texts == {"f.py": "good"}
    assert [trial.accepted for trial in found.trials] == [True, True]


def test_an_edit_that_only_brings_another_cause_is_deferred():
    program = FakeProgram("bad1", {"bad1": "bad2", "bad2": "good"}, levels={"bad2": UNSAFE})
    safe = program.search()
    assert not safe.program.texts and safe.deferred == {("FG-bad1", "bad2")}
    assert not safe.trials[0].accepted
    unsafe = program.search(UNSAFE, safe)
    assert unsafe.program.texts == {"f.py": "good"} and not unsafe.deferred
    assert not safe.program.texts


def test_an_edit_that_joins_no_graphs_is_undone():
    program = FakeProgram("bad1 + bad_loop", {"bad1": "good1"})
    found = program.search()
    (trial,) = found.trials
    assert not found.program.texts and not trial.accepted
    assert trial.proof.reason == "no graphs are joined while `bad_loop` breaks the same function"
    assert len(program.search(UNSAFE, found).trials) == 1
    program.edits["bad_loop"] = "good2"
    assert program.search().program.texts == {"f.py": "good1 + good2"}


def test_no_edit_is_searched_for_when_time_is_up():
    program = FakeProgram("bad1", {"bad1": "good"})
    late = program.runs(is_late=lambda: True, propose=_time_up)
    assert not search_edits(program.start(), SAFE, late, rounds=8).trials


@pytest.mark.parametrize("question", ["prove", "explain"])
def test_time_that_is_up_neither_fails_an_edit_nor_accepts_it(question):
    program = FakeProgram("bad1 + bad2", {})
    answered = getattr(program.runs(), question)

    def ask(*given):
        if any("good2" in text for one in given if isinstance(one, dict) for text in one.values()):
            _time_up()
        return answered(*given)

    program.edits = {"bad1": "good1"}
    first = program.search()
    program.edits = {"bad2": "good2"}
    found = search_edits(first, SAFE, program.runs(**{question: ask}), rounds=8)
    assert found.program.texts == {"f.py": "good1 + bad2"}
    assert [trial.accepted for trial in found.trials] == [True, False]
    assert found.states["FG-bad2", "good1 + good2"] is ProofState.TIME_UP


def test_time_that_is_up_within_a_chain_fails_no_edit():
    program = FakeProgram("bad1", {"bad1": "bad2", "bad2": "good"})
    answered, ended = program.propose, []

    def propose(edited):
        if "bad2" in program.text_of(edited.texts):
            ended.append(True)
            _time_up()
        return answered(edited)

    runs = program.runs(propose=propose, is_late=lambda: bool(ended))
    found = search_edits(program.start(), SAFE, runs, rounds=8)
    (trial,) = found.trials
    assert trial.proof.state is ProofState.TIME_UP and not trial.accepted
    assert not found.program.texts and not found.deferred


def test_an_edit_that_fails_compiled_stays_undone_when_time_is_up():
    program = FakeProgram("bad1 + bad2", {"bad1": "good1"})
    first = program.search()
    program.edits = {"bad2": "good2"}
    found = program.search(state=first)
    assert found.program.texts == {"f.py": "good1 + good2"}

    def check_compiled(texts, offers):
        return WRONG.checks[0] if "good2" in texts["f.py"] else _time_up()

    undone = undo_uncompiled(found, program.runs(check_compiled=check_compiled))
    assert undone.program.texts == {"f.py": "good1 + bad2"}
    assert [trial.accepted for trial in undone.trials] == [True, False]


def _time_up(*_):
    raise TimeUp


def test_the_last_edit_is_undone_where_inductor_computes_something_else():
    program = FakeProgram("bad1", {"bad1": "good"})
    found = program.search()
    undone = undo_uncompiled(found, program.runs(check_compiled=lambda *_: WRONG.checks[0]))
    assert not undone.program.texts and not undone.trials[0].accepted
    assert found.trials[0].accepted


def test_an_edit_is_undone_if_capture_is_all_it_gains_and_inductor_fails_on_the_graph():
    program = FakeProgram("bad1", {"bad1": "good"})
    found = program.search()
    captured = replace(found.program, explanation=explanation("good", breaks=1))
    found = replace(found, program=captured)
    assert undo_uncompiled(found, program.runs()).program.texts
    runs = program.runs(check_fullgraph=lambda *_: Check("inductor", False, "it raises"))
    undone = undo_uncompiled(found, runs)
    assert not undone.program.texts and undone.trials[0].proof.reason == "it raises"
    fewer = replace(found.program, explanation=explanation("good", breaks=0))
    assert undo_uncompiled(replace(found, program=fewer), runs).program.texts
    skipped = explanation("bad1", breaks=1)  # the function runs in eager, its callees are graphs
    skipped.default.graphs = 17
    joined = replace(captured, parent=replace(captured.parent, explanation=skipped))
    assert undo_uncompiled(replace(found, program=joined), runs).program.texts


@pytest.mark.parametrize(
    ("breaks_of", "kept"), [(lambda text: 4 - _bad_words(text), False), (_bad_words, True)]
)
def test_compiled_code_does_all_work_of_a_function_only_if_fewer_breaks_remain(breaks_of, kept):
    program = FakeProgram("bad1 + bad2", {"bad1": "good"}, levels={"bad1": UNSAFE})

    def propose(edited):
        for found in program.propose(edited):
            offers = [
                replace(one, rewrite=replace(one.rewrite, has_shortcut=True))
                for one in found.offers
            ]
            yield replace(found, offers=tuple(offers))

    def explain(texts, offers):
        text = program.text_of(texts)
        return explanation(text, breaks_of(text))

    runs = program.runs(propose=lambda edited: [*propose(edited)], explain=explain)
    start = SearchState(EditedProgram({}, explain({}, [])))
    found = search_with_boundaries(start, start, start, runs, rounds=8)
    assert bool(found.program.texts) == kept


def test_an_edit_proved_on_one_side_leaves_the_safe_search_without_another_proof():
    words = {"bad1": "good1", "bad2": "good2", "bad3": "good3"}
    program = FakeProgram("bad1 + bad2 + bad3", words)
    proofs = []

    def prove(base, texts, offers):
        proofs.append([offer.rule.code for offer in offers])
        seen = Branches("bad2", Seen.UNSEEN, Seen.SEEN)
        branches = tuple(seen for offer in offers for _ in offer.tests)
        return Proof(ProofState.ONE_SIDE, branches=branches) if branches else PROVED

    def propose(edited):
        """As the program proposes; the edit of `bad2` has a condition."""
        for found in program.propose(edited):
            offers = [
                replace(one, rewrite=replace(one.rewrite, tests=tuple(one.rewrite.replacements)))
                if one.cause.expression == "bad2"
                else one
                for one in found.offers
            ]
            yield replace(found, offers=tuple(offers))

    runs = program.runs(propose=lambda edited: [*propose(edited)], prove=prove)
    safe = search_edits(program.start(), SAFE, runs, rounds=8)
    assert safe.program.texts == {"f.py": "good1 + bad2 + good3"}
    assert proofs == [["FG-bad1", "FG-bad2", "FG-bad3"], ["FG-bad1", "FG-bad3"]]
    unsafe = search_edits(safe, UNSAFE, runs, rounds=8)
    assert unsafe.program.texts == {"f.py": "good1 + good2 + good3"} and len(proofs) == 3


def test_an_edit_that_ends_a_crash_of_the_compiler_pays():
    """What broke and recompiled up to the crash is no measure of what runs to its end."""
    before, after = explanation("bad1 + bad2"), explanation("good1 + bad2 + bad3 + bad4")
    after.recompiles = (SimpleNamespace(count=5),)
    mended = before.causes[:1]
    assert not check_causes(before, after, mended).ok
    before.crashes = ("IndexError",)
    assert check_causes(before, after, mended).ok
    after.crashes = ("IndexError",)
    assert not check_causes(before, after, mended).ok


FAILED_INDEX = """GuardOnDataDependentSymNode: u0
While executing %getitem : [num_users=1] = call_function[target=operator.getitem](args = ())
  File "f.py", line 2, in f
    bad10, bad1
           ^^^^
"""


def test_the_cause_of_an_index_that_fails_ends_with_its_edit():
    program = FakeProgram("", {"bad1": "good"})
    before = EditedProgram(
        {
            "f.py": block("""
                if 1:
                  bad10, bad1
            """)
        },
        CLEAN,
        EditedProgram({}, CLEAN),
        0,
    )

    def check_fullgraph(texts, offers):
        failed = texts["f.py"].endswith(" bad1\n")
        return Check("inductor", not failed, raised=FAILED_INDEX if failed else "")

    runs = program.runs(check_fullgraph=check_fullgraph, explain=lambda *_: CLEAN)
    found = search_index_edits(SearchState(before), None, UNSAFE, runs, 3)
    assert found.program.texts["f.py"] == block("""
        if 1:
          bad10, good
    """)
    assert found.program.parent is before and found.offers
    assert {one.cause.position.column for one in found.offers.values()} == {9}
    whole = FullgraphRun("none", Check("fullgraph", True))
    unchanged = SearchState(before)
    assert search_index_edits(unchanged, whole, UNSAFE, runs, 3) is unchanged
