from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from fullgraph.diagnose.report.rows import cause_rows, describe_edit, find_remedy
from fullgraph.rewrites.source import unified_diff
from tests.text import block

from .explanations import BRANCH, EDITED, FILE, HIDDEN, ITEM, KEEP, SETTING, TWO, graph
from .strategies import EXPLANATION


def rows(*causes, **changes):
    explanation = replace(TWO, causes=causes, **changes)
    return [([c.id for c in row.causes], row.effect) for row in cause_rows(explanation)]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPLANATION)
def test_every_cause_is_in_one_row(explanation):
    shown = [cause for row in cause_rows(explanation) for cause in row.causes]
    assert sorted(map(id, shown)) == sorted(map(id, explanation.causes))


def test_skipped_frames_come_first_and_hidden_causes_last():
    assert rows(HIDDEN, ITEM, BRANCH) == [
        (["C2"], "frame runs in eager"),
        (["C1"], "ends 1 graph"),
        (["C3"], "hidden by C2"),
    ]


def test_the_cause_that_ends_most_graphs_comes_first():
    twice = replace(ITEM, id="C4", graphs=("G1", "G2"))
    assert [ids for ids, _ in rows(ITEM, twice)] == [["C4"], ["C1"]]


def test_causes_that_one_edit_removes_are_one_row():
    both = replace(KEEP, removes=("C1", "C4"))
    one, other = (replace(ITEM, id=id, edits=(both,)) for id in ("C1", "C4"))
    assert [ids for ids, _ in rows(one, other, BRANCH)] == [["C2"], ["C1", "C4"]]


def test_an_idea_without_a_diff_is_followed_at_each_place():
    idea = replace(SETTING, settings=(), removes=("C1", "C4"))
    one, other = (replace(ITEM, id=id, edits=(idea,)) for id in ("C1", "C4"))
    assert [ids for ids, _ in rows(one, other)] == [["C1"], ["C4"]]


def resuming(number, line, ended_by=None):
    return replace(graph(number, 3, ended_by), line=line)


def test_graphs_without_a_break_are_counted_where_one_frame_resumes():
    print_ = replace(HIDDEN, id="C2", hidden=False, behind=None, events=1, graphs=("G2",))
    item = replace(ITEM, events=1)
    graphs = (resuming(1, 11, "C1"), resuming(2, 14, "C2"), resuming(3, 24))
    assert rows(item, print_, graphs=graphs) == [
        (["C1"], "3 → 2 graphs"),
        (["C2"], "3 → 2 graphs"),
    ]
    assert rows(item, graphs=graphs) == [(["C1"], "3 → 1 graph")]


def test_they_are_not_counted_where_several_frames_break():
    print_ = replace(HIDDEN, id="C2", hidden=False, behind=None, events=1, graphs=("G2",))
    graphs = (resuming(1, 11, "C1"), resuming(2, 60, "C2"), resuming(3, 24))
    assert rows(replace(ITEM, events=1), print_, graphs=graphs)[0] == (["C1"], "ends 1 graph")


def test_a_cause_of_one_mode_says_so():
    assert rows(replace(ITEM, modes=("fullgraph",), graphs=())) == [(["C1"], "fullgraph=True only")]


@pytest.mark.parametrize(
    ("changes", "label", "text"),
    [
        ({}, "edit", "total = mask.sum()"),
        ({"after": ("import math", "", "total = 1")}, "edit", "total = 1"),
        ({"after": ("if ready:", "    run()")}, "edit", "if ready: run()"),
        (
            {"after": ("a = 1", "b = 2")},
            "edit",
            block("""
                a = 1
                b = 2"""),
        ),
        ({"after": ("x = 1",) * 5}, "edit", KEEP.why),
        ({"after": ()}, "delete", "total = mask.sum().item()"),
        ({"line": 3}, "edit", "line 3: total = mask.sum()"),
        ({"diff": "", "after": (), "before": ()}, "try", KEEP.why),
    ],
)
def test_an_edit_in_a_line(changes, label, text):
    remedy = describe_edit(replace(KEEP, **changes), ITEM)
    assert (remedy.label, remedy.text) == (label, text)


def test_a_change_of_code_comes_before_a_setting():
    assert find_remedy(EDITED).tag == "FG201, unsafe"
    setting = find_remedy(replace(ITEM, edits=(SETTING,)))
    assert (setting.label, setting.text) == ("set", SETTING.settings[0])


def test_without_a_rule_it_is_the_first_advice_for_the_code():
    assert find_remedy(ITEM).text == "Keep the number in a tensor."
    assert find_remedy(replace(ITEM, position=replace(ITEM.position, file=FILE), advice=())).text


BEFORE = block("""
    import numpy
    import torch


    def f(x):
        if x.sum() > 0:
            x = 2
        return x
""")


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        # An import that goes moves no number of the lines below it.
        ([("import numpy\n", ""), ("    if x.sum() > 0:\n        x = 2\n", "    x = 3\n")], "6–7"),
        (
            [
                (
                    "import torch\n",
                    block("""
                        import math
                        import torch
                    """),
                ),
                ("    return x", "    return -x"),
            ],
            "",
        ),
        (
            [("    if x.sum() > 0:", "    if True:"), ("    return x", "    return -x")],
            "line 6: if True:\nline 8: return -x",
        ),
    ],
)
def test_an_edit_names_the_lines_of_each_place(edits, text):
    after = BEFORE
    for old, new in edits:
        after = after.replace(old, new)
    diff = unified_diff("f.py", BEFORE, after)
    added = [line for line in after.splitlines() if line not in BEFORE.splitlines()]
    shown = describe_edit(replace(KEEP, diff=diff, after=tuple(added)), ITEM).text
    assert text in shown if text else ("line" not in shown)


def test_an_edit_of_a_line_that_another_edit_changes_says_so():
    diff = unified_diff("f.py", BEFORE, BEFORE.replace("x = 2", "x = 3"))
    edit = replace(KEEP, diff=diff, removes=())
    two = [replace(ITEM, id=id, edits=(edit,)) for id in ("C1", "C2")]
    first, second = cause_rows(replace(TWO, causes=tuple(two)))
    assert "changes the same line" not in first.remedy.condition
    assert f"edit {first.first.id} first" in second.remedy.condition
