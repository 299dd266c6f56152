from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from fullgraph.compiler.events import Position
from fullgraph.diagnose.report.marked_source import source_lines

from .explanations import ITEM, TRICKY
from .strategies import CAUSE


def marked(*source, span, expression=""):
    """What is marked of each line when `span` is (line, column, end line, end column)."""
    cause = replace(
        ITEM,
        position=Position("a.py", *span),
        expression=expression,
        source=tuple(enumerate(source, 1)),
    )
    return [line.parts[1] for line in source_lines(cause)]


def test_exactly_the_expression_is_marked():
    assert marked("y = f(x) + 1", span=(1, 4, 1, 8)) == ["f(x)"]


def test_columns_are_utf8_bytes():
    text = 'é = "日本" + f(x)'
    assert marked(text, span=(1, len('é = "日本" + '.encode()), 1, len(text.encode()))) == ["f(x)"]


def test_a_span_of_several_lines_leaves_out_the_indentation():
    source = ("y = f(", "    x,", "  )  # end")
    assert marked(*source, span=(1, 4, 3, 3)) == ["f(", "x,", ")"]


def test_tabs_move_the_mark_with_the_text():
    cause = replace(ITEM, position=Position("a.py", 2, 2, 2, 6), source=((1, "x"), (2, "\t\tf(x)")))
    line = source_lines(cause)[1]
    assert line.text == "        f(x)"
    assert (line.start, line.end) == (8, 12)


def test_a_mark_that_is_all_indentation_goes_with_it():
    assert marked("\tx", span=(1, 0, None, None)) == [""]


def test_common_indentation_is_taken_away():
    line = source_lines(ITEM, around=3)[0]
    assert line.text == "def forward(self, x, mask):"


@pytest.mark.parametrize(
    ("span", "expression", "expected"),
    [
        ((1, None, None, None), "f(x)", ""),
        ((1, 4, None, None), "f(x)", "f(x)"),
        ((1, 4, None, None), "", "f"),
        ((1, 99, 1, 120), "", ""),
        ((1, 8, 1, 4), "", ""),
        ((1, 4, 0, 8), "", "f(x)"),
    ],
)
def test_unknown_or_impossible_columns(span, expression, expected):
    assert marked("y = f(x) + 1", span=span, expression=expression) == [expected]


def test_a_line_with_unknown_columns_is_still_pointed_at():
    cause = replace(ITEM, position=Position("a.py", 14))
    assert [line.number for line in source_lines(cause) if line.hit] == [14]


def test_what_would_hide_or_reorder_source_is_visible():
    assert "\\u202e" in source_lines(TRICKY)[0].text


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(CAUSE)
def test_a_mark_lies_within_its_line(cause):
    for line in source_lines(cause):
        assert "".join(line.parts) == line.text
        assert line.start is None or 0 <= line.start < line.end <= len(line.text)
        assert "\n" not in line.text
