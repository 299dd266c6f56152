"""What an iteration of a loop reads of the iteration before it."""

import ast

import pytest

from fullgraph.rewrites.check.interpreter.loops import carried_reads
from tests.text import block


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        (
            block("""
                for x in xs:
                    y = x + 1
                    print(y.shape)"""),
            {"print"},
        ),
        (
            block("""
                for x in xs:
                    y += x"""),
            {"y"},
        ),
        (
            block("""
                for x in xs:
                    if c:
                        y = x
                    z = y"""),
            {"c", "y"},
        ),
        (
            block("""
                for x in xs:
                    if c:
                        y = x
                    else:
                        y = 1
                    z = y"""),
            {"c"},
        ),
        (
            block("""
                for x in xs:
                    if y := f(x):
                        z = y"""),
            {"f"},
        ),
        (
            block("""
                for x in xs:
                    self.a = self.b.c"""),
            {"self", "self.b", "self.b.c"},
        ),
        (
            block("""
                for x in xs:
                    def g():
                        return y
                    y = x"""),
            {"y"},
        ),
        (
            block("""
                while n > 0:
                    n = m"""),
            {"n", "m"},
        ),
    ],
)
def test_reads(loop: str, expected: set[str]) -> None:
    (node,) = ast.parse(loop).body
    assert isinstance(node, ast.For | ast.While)
    assert carried_reads(node) - {""} == expected
