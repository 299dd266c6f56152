"""What an iteration of a loop reads of the iteration before it."""

import ast

import pytest

from fullgraph.rewrites.check.interpreter.loops import carried_reads


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("for x in xs:\n    y = x + 1\n    print(y.shape)", {"print"}),
        ("for x in xs:\n    y += x", {"y"}),
        ("for x in xs:\n    if c:\n        y = x\n    z = y", {"c", "y"}),
        ("for x in xs:\n    if c:\n        y = x\n    else:\n        y = 1\n    z = y", {"c"}),
        ("for x in xs:\n    if y := f(x):\n        z = y", {"f"}),
        ("for x in xs:\n    self.a = self.b.c", {"self", "self.b", "self.b.c"}),
        ("for x in xs:\n    def g():\n        return y\n    y = x", {"y"}),
        ("while n > 0:\n    n = m", {"n", "m"}),
    ],
)
def test_reads(loop: str, expected: set[str]) -> None:
    (node,) = ast.parse(loop).body
    assert isinstance(node, ast.For | ast.While)
    assert carried_reads(node) - {""} == expected
