"""Control flow: which names a statement binds, and what lives after it."""

import libcst as cst
import pytest

from fullgraph.rewrites.analysis.flow import live_in, names_surely_bound
from tests.text import block


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        (
            block("""
                if c:
                    a = 1"""),
            set(),
        ),
        (
            block("""
                for a in b:
                    c = 1"""),
            set(),
        ),
        (
            block("""
                if c:
                    a = b = 1
                else:
                    a = 2"""),
            {"a"},
        ),
        (
            block("""
                if c:
                    a = b = 1
                elif d:
                    a = 2
                else:
                    a = b = 3"""),
            {"a"},
        ),
        (
            block("""
                if c:
                    a = 1
                elif d:
                    a = 2"""),
            set(),
        ),
        (
            block("""
                with f() as a:
                    b = 1"""),
            {"a", "b"},
        ),
        (
            block("""
                def a(b):
                    c = 1"""),
            {"a"},
        ),
        ("a, b = c; self.d = 1", {"a", "b", "self.d"}),
    ],
)
def test_names_surely_bound(statement, names):
    assert names_surely_bound(cst.parse_module(statement).body[0]) == names


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        (
            block("""
                for a in b:
                    if a: continue
                    c = a
                    d(c)"""),
            {"b", "d"},
        ),
        (
            block("""
                for a in b:
                    c = c + a"""),
            {"b", "c"},
        ),
        (
            block("""
                for a in b:
                    d(c)
                    c = a"""),
            {"b", "c", "d"},
        ),
        (
            block("""
                for a in b:
                    c = a
                else:
                    d(c)"""),
            {"b", "c", "d"},
        ),
        (
            block("""
                for a.b in c:
                    pass"""),
            {"a", "c"},
        ),
        (
            block("""
                c = 1
                for a in b:
                    c = c + a"""),
            {"b"},
        ),
    ],
)
def test_live_in(statement, names):
    assert live_in(cst.parse_module(statement).body) == names
