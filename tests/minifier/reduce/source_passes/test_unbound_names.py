"""What a text reads and gives no value."""

import ast
import textwrap

import pytest

from fullgraph.minifier.reduce.source.unbound_names import find_names
from tests.text import block


def read(text: str) -> list[str]:
    return [use.name for use in find_names(ast.parse(textwrap.dedent(text))).unbound]


@pytest.mark.parametrize(
    "text",
    [
        block("""
            x = 1
            print(x)"""),
        block("""
            def f(a, *b, c=1, **d):
                return a, b, c, d"""),
        block("""
            def f():
                return g()
            def g():
                pass"""),
        block("""
            def f():
                for i in range(3):
                    if i:
                        print(y)
                    y = i"""),
        "print([a for a in range(3) if a])",
        "print([b for a in [[1]] for b in a])",
        block("""
            class A:
                x = 1
                y = x"""),
        block("""
            import os.path as p, sys
            print(p, sys)"""),
        block("""
            with open('f') as f:
                f.read()"""),
        block("""
            try:
                pass
            except ValueError as error:
                print(error)"""),
        block("""
            if (n := 3):
                print(n)"""),
        block("""
            def f():
                global g
                g = 1
            def h():
                return g"""),
        block("""
            match 3:
                case {'a': a, **rest}:
                    print(a, rest)"""),
        block("""
            match 3:
                case [*many]:
                    print(many)"""),
        block("""
            def f(n):
                def g():
                    nonlocal n
                    n = 2
                return g"""),
        block("""
            from math import *
            print(anything)"""),
        "f = lambda x: x + 1",
        block("""
            def f(x):
                return (lambda: x)()"""),
    ],
)
def test_names_with_a_value_are_not_told(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("print(x)", ["x"]),
        (
            block("""
                def f():
                    return y"""),
            ["y"],
        ),
        (
            block("""
                def f():
                    y = y + 1"""),
            ["y"],
        ),
        (
            block("""
                def f():
                    y += 1"""),
            ["y"],
        ),
        (
            block("""
                print(f())
                def f():
                    pass"""),
            ["f"],
        ),
        (
            block("""
                class A(B):
                    pass"""),
            ["B"],
        ),
        (
            block("""
                class A:
                    x = 1
                    def f(self):
                        return x"""),
            ["x"],
        ),
        (
            block("""
                @d
                def f(a: T = z):
                    pass"""),
            ["d", "z", "T"],
        ),
        ("[a for a in b]", ["b"]),
        (
            block("""
                def f():
                    print(x)
                    for x in []:
                        pass"""),
            ["x"],
        ),
    ],
)
def test_names_without_a_value(text: str, missing: list[str]) -> None:
    assert read(text) == missing


def test_an_attribute_of_self_is_lost_with_what_set_it() -> None:
    text = block("""
        class A:
            def __init__(self):
                self.a = 1
    """)
    text += "    def f(self):\n        return self.a\n"
    before = find_names(ast.parse(text))
    after = find_names(ast.parse(text.replace("self.a = 1", "pass")))
    assert [use.name for use in after.lost(before)] == ["a"]
    assert before.lost(before) == []


def test_an_attribute_that_a_base_may_set_is_no_loss() -> None:
    before = find_names(
        ast.parse(
            block("""
                class A(B):
                    def f(self):
                        return self.weight""")
        )
    )
    assert before.lost(before) == []
