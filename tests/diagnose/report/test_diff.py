import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from fullgraph.compiler.errors import FullgraphError
from fullgraph.diagnose.report.diff import diff
from tests.text import block

from .explanations import BRANCH, HIDDEN, ITEM, TWO
from .strategies import EXPLANATION


def with_causes(*causes):
    return replace(TWO, causes=causes)


def moved(cause, lines, **changes):
    return replace(
        cause, position=replace(cause.position, line=cause.position.line + lines), **changes
    )


def ids(causes):
    return [cause.id for cause in causes]


def test_new_and_gone_causes():
    difference = diff(with_causes(ITEM, BRANCH), with_causes(BRANCH, HIDDEN))
    assert ids(difference.new) == ["C3"]
    assert ids(difference.gone) == ["C1"]
    assert ids(difference.kept) == ["C2"]
    assert difference.sentence == "1 new cause, 1 gone"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ((), (ITEM, BRANCH), "2 new causes"),
        ((ITEM,), (BRANCH, HIDDEN), "2 new causes, 1 gone"),
        ((ITEM, BRANCH), (), "2 causes gone, none new"),
        ((ITEM,), (ITEM,), "no cause new or gone, 1 kept"),
    ],
)
def test_the_sentence(old, new, sentence):
    assert diff(with_causes(*old), with_causes(*new)).sentence == sentence


def test_a_moved_cause_is_kept():
    assert ids(diff(with_causes(ITEM), with_causes(moved(ITEM, 100, id="C9"))).kept) == ["C9"]


def test_a_checkout_elsewhere_is_the_same_file():
    there = replace(ITEM, position=replace(ITEM.position, file="/elsewhere/models/net.py"))
    assert diff(with_causes(ITEM), with_causes(there)).kept


def test_reformatted_white_space_is_the_same_expression():
    formatted = replace(
        ITEM,
        expression=block("""
            mask.sum(
            ).item()"""),
    )
    assert diff(with_causes(ITEM), with_causes(formatted)).kept


@pytest.mark.parametrize(
    "other",
    [
        replace(ITEM, category="print"),
        replace(ITEM, expression="mask.max().item()"),
        replace(ITEM, position=replace(ITEM.position, function="Net.loss")),
        replace(ITEM, position=replace(ITEM.position, file="other.py")),
    ],
)
def test_another_category_expression_function_or_file_is_another_cause(other):
    difference = diff(with_causes(ITEM), with_causes(other))
    assert difference.new and difference.gone and not difference.kept


def test_of_equal_causes_the_one_in_other_surroundings_is_new():
    first = ITEM
    second = moved(ITEM, 40, id="C2", source=((54, "        total = mask.sum().item()"),))
    inserted = moved(ITEM, 1, id="C7", source=((15, "        other = 1"),))
    new = (inserted, moved(first, 20, id="C8"), moved(second, 20, id="C9"))
    difference = diff(with_causes(first, second), with_causes(*new))
    assert ids(difference.new) == ["C7"]
    assert ids(difference.kept) == ["C8", "C9"]


def test_of_equal_causes_as_many_are_gone_as_are_missing():
    three = [moved(ITEM, n, id=f"C{n}") for n in (1, 2, 3)]
    difference = diff(with_causes(*three), with_causes(three[1]))
    assert len(difference.gone) == 2
    assert ids(difference.kept) == ["C2"]


def test_a_saved_explanation_is_as_good_as_a_live_one():
    saved = json.loads(json.dumps(TWO.to_dict()))
    assert diff(saved, TWO) == diff(TWO, saved) == TWO.diff(saved) == diff(TWO, TWO)


def test_data_of_another_program_is_refused():
    with pytest.raises(FullgraphError, match="not a saved explanation"):
        TWO.diff({"tool": "other"})


def test_an_unfinished_run_and_other_settings_are_told():
    old = replace(TWO, error="Ctrl-C.", torch="2.12.0")
    sentences = " ".join(diff(old, TWO).reservations)
    assert "older explanation was not finished" in sentences
    assert "torch 2.12.0, then 2.13.0" in sentences
    assert diff(TWO, TWO).reservations == ()


def test_repr_names_expression_and_place():
    text = repr(diff(with_causes(ITEM), with_causes(BRANCH)))
    assert text.splitlines()[0] == "1 new cause, 1 gone"
    assert "+ branch on a tensor · models/net.py:22:12 in Net.forward" in text
    assert "- scalar from a tensor · models/net.py:14:17" in text
    assert "mask.sum().item()" in text


def test_to_dict_is_json():
    data = json.loads(json.dumps(diff(with_causes(ITEM), with_causes(BRANCH)).to_dict()))
    assert data["schema"] == 1
    assert [cause["id"] for cause in data["new"]] == ["C2"]
    assert data["gone"][0]["line"] == 14


@pytest.mark.compiles
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPLANATION, EXPLANATION)
def test_nothing_is_lost_or_counted_twice(old, new):
    difference = diff(old, new)
    assert len(difference.new) + len(difference.kept) == len(new.causes)
    assert len(difference.gone) + len(difference.kept) == len(old.causes)
    assert len(diff(old, old).kept) == len(old.causes)
