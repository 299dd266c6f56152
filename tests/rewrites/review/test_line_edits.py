"""Edits of whole lines, as suggestions of a review."""

import pytest

from fullgraph.rewrites.check import TextEdit
from fullgraph.rewrites.review.line_edits import LineEdit, edit_of, edits_in
from tests.text import block

LINES = ["a", "bé(1)", "c", "d"]


def test_an_edit_inside_a_line_replaces_the_line():
    edit = edit_of(LINES, TextEdit(2, 4, 2, 5, "22"))
    assert edit == LineEdit(2, 2, ("bé(1)",), ("bé(22)",))


def test_lines_that_stay_are_left_out():
    edit = edit_of(
        LINES,
        TextEdit(
            1,
            0,
            4,
            1,
            block("""
                a
                bé(1)
                C
                d"""),
        ),
    )
    assert edit == LineEdit(3, 3, ("c",), ("C",))


def test_an_insertion_takes_the_line_before_it_along():
    assert edit_of(LINES, TextEdit(3, 0, 3, 0, "new\n")) == LineEdit(
        2, 2, ("bé(1)",), ("bé(1)", "new")
    )


def test_a_deletion_has_no_new_line():
    edit = edit_of(LINES, TextEdit(2, 0, 3, 0, ""))
    assert (edit.first, edit.last, edit.new) == (2, 2, ())
    assert edit.suggestion() == "```suggestion\n```"


def test_each_hunk_of_a_diff_is_an_edit():
    diff = (
        "--- a/net.py\n+++ b/net.py\n@@ -1,2 +1,3 @@\n a\n+--- inserted\n bé(1)\n"
        "@@ -4 +5 @@\n-d\n+D\n\\ No newline at end of file\n"
    )
    assert edits_in(diff, LINES) == [
        LineEdit(1, 1, ("a",), ("a", "--- inserted")),
        LineEdit(4, 4, ("d",), ("D",)),
    ]


@pytest.mark.parametrize(("lines", "within"), [({2, 3}, True), ({2}, False), ({3, 4}, False)])
def test_a_suggestion_needs_all_its_lines(lines, within):
    assert LineEdit(2, 3, ("b", "c"), ("x",)).is_within(lines) is within


def test_the_fence_is_longer_than_those_inside():
    edit = LineEdit(1, 1, ("a",), ("'''", "````", "x"))
    assert edit.suggestion() == "`````suggestion\n'''\n````\nx\n`````"
    assert edit.diff().startswith("`````diff\n-a\n+'''\n")
