"""Positions, parts of which a version of torch may not tell."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fullgraph.compiler.events import Position

NUMBER = st.integers(0, 4)
UNKNOWN = st.none() | NUMBER
POSITIONS = st.builds(
    Position, st.sampled_from(["a.py", "b.py"]), NUMBER, UNKNOWN, UNKNOWN, UNKNOWN
).filter(lambda position: position.end_line is None or position.line <= position.end_line)


@given(POSITIONS, POSITIONS, POSITIONS)
def test_to_be_inside_is_an_order(a, b, c):
    assert not a.is_inside(a)
    assert not (a.is_inside(b) and b.is_inside(a))
    if a.is_inside(b) and b.is_inside(c):
        assert a.is_inside(c)


@given(POSITIONS, POSITIONS)
def test_what_is_inside_is_on_the_lines_and_known(a, b):
    if a.is_inside(b):
        assert {*a.lines} <= {*b.lines}
        assert None not in (a.extent, b.extent)
    for part in ("column", "end_line", "end_column"):
        assert not replace(a, **{part: None}).is_inside(b)


@given(POSITIONS)
def test_its_first_line_is_among_its_lines(a):
    assert a.line in a.lines
