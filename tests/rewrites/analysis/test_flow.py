"""Control flow: which names a statement binds, and what lives after it."""

import libcst as cst
import pytest

from fullgraph.rewrites.analysis.flow import live_in, names_surely_bound


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("if c:\n    a = 1", set()),
        ("for a in b:\n    c = 1", set()),
        ("if c:\n    a = b = 1\nelse:\n    a = 2", {"a"}),
        ("if c:\n    a = b = 1\nelif d:\n    a = 2\nelse:\n    a = b = 3", {"a"}),
        ("if c:\n    a = 1\nelif d:\n    a = 2", set()),
        ("with f() as a:\n    b = 1", {"a", "b"}),
        ("def a(b):\n    c = 1", {"a"}),
        ("a, b = c; self.d = 1", {"a", "b", "self.d"}),
    ],
)
def test_names_surely_bound(statement, names):
    assert names_surely_bound(cst.parse_module(statement).body[0]) == names


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("for a in b:\n    if a: continue\n    c = a\n    d(c)", {"b", "d"}),
        ("for a in b:\n    c = c + a", {"b", "c"}),
        ("for a in b:\n    d(c)\n    c = a", {"b", "c", "d"}),
        ("for a in b:\n    c = a\nelse:\n    d(c)", {"b", "c", "d"}),
        ("for a.b in c:\n    pass", {"a", "c"}),
        ("c = 1\nfor a in b:\n    c = c + a", {"b"}),
    ],
)
def test_live_in(statement, names):
    assert live_in(cst.parse_module(statement).body) == names
