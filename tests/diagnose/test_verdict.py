"""The verdict of explanations built by hand."""

from __future__ import annotations

from dataclasses import replace

from fullgraph.diagnose.explanation_data import Mode, Note, Verification
from fullgraph.diagnose.verdict import verdict

from .report.explanations import CLEAN, TROUBLED, TWO

DONE = replace(TWO, hidden_search="nothing new")


def test_a_clean_model() -> None:
    assert verdict(CLEAN) == (
        "Net is one graph of 12 ops in default mode and under fullgraph=True, not compiled with "
        "Inductor yet."
    )
    assert verdict(replace(CLEAN, backend="inductor")) == (
        "Net is one graph of 12 ops in default mode and under fullgraph=True."
    )


def test_a_clean_model_whose_fullgraph_was_not_tried_is_not_said_to_pass_it() -> None:
    untried = replace(CLEAN, fullgraph=Mode(None, None))
    assert verdict(untried) == (
        "Net is one graph of 12 ops in default mode; fullgraph=True was not tried."
    )


def test_a_model_that_only_default_mode_breaks() -> None:
    whole = replace(DONE, fullgraph=Mode(1, 0, True), causes=DONE.causes[:1])
    assert verdict(whole) == (
        "Net runs as 3 graphs: 4 breaks from 1 cause, none hidden; it is one graph under "
        "fullgraph=True, not compiled with Inductor yet."
    )


def test_what_inductor_made_of_the_graph() -> None:
    same, other = Verification(True), Verification(False, "the outputs differ")
    assert verdict(replace(CLEAN, verification=same)).endswith(
        "and with Inductor it behaves as in eager. No edit needed: "
        "`torch.compile(model, fullgraph=True)`."
    )
    assert verdict(replace(CLEAN, verification=other)).endswith(
        "under fullgraph=True, but Inductor fails: the outputs differ."
    )


def test_what_the_search_for_hidden_causes_came_to() -> None:
    start = "Net runs as 3 graphs: 4 breaks from 2 causes"
    assert verdict(DONE).startswith(f"{start}, 1 more hidden; fullgraph=True raises at C2.")
    assert verdict(replace(DONE, causes=DONE.causes[:2])).startswith(f"{start}, none hidden; ")
    assert "(the search for hidden ones ran out of rounds)" in verdict(
        replace(DONE, hidden_search="rounds")
    )
    assert verdict(replace(DONE, complete=False, causes=DONE.causes[:2])).startswith(f"{start}; ")


def test_none_is_hidden_is_not_said_where_the_search_was_blocked() -> None:
    blocked = Note("unmask", "What lies behind is not known: it raises.", TWO.causes[0].position)
    explanation = replace(DONE, causes=DONE.causes[:2], notes=(blocked,))
    assert "hidden" not in verdict(explanation)


def test_a_model_without_a_graph() -> None:
    skipped = replace(DONE, default=Mode(0, 1, False), graphs=())
    assert verdict(skipped).startswith("Net runs in eager, without a graph: 1 break from 2 causes")


def test_what_else_went_wrong() -> None:
    assert verdict(replace(TROUBLED, error=None)).endswith(
        "; 8 recompiles; 2 functions run in eager without a break; compilation failed once."
    )
    assert verdict(TROUBLED) == TROUBLED.error


def test_a_model_without_tensor_operations() -> None:
    empty = replace(CLEAN, default=Mode(0, 0, False), fullgraph=Mode(None, None), graphs=())
    assert verdict(empty) == "Net holds no tensor operation to compile."


def test_an_unfinished_trace_says_nothing_of_fullgraph() -> None:
    begun = replace(DONE, fullgraph=Mode(None, None), complete=False)
    assert "fullgraph" not in verdict(begun)
