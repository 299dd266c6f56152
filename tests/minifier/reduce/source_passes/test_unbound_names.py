"""What a text reads and gives no value."""

import ast
import textwrap

import pytest

from fullgraph.minifier.reduce.source.unbound_names import find_names


def read(text: str) -> list[str]:
    return [use.name for use in find_names(ast.parse(textwrap.dedent(text))).unbound]


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\nprint(x)",
        "def f(a, *b, c=1, **d):\n    return a, b, c, d",
        "def f():\n    return g()\ndef g():\n    pass",
        "def f():\n    for i in range(3):\n        if i:\n            print(y)\n        y = i",
        "print([a for a in range(3) if a])",
        "print([b for a in [[1]] for b in a])",
        "class A:\n    x = 1\n    y = x",
        "import os.path as p, sys\nprint(p, sys)",
        "with open('f') as f:\n    f.read()",
        "try:\n    pass\nexcept ValueError as error:\n    print(error)",
        "if (n := 3):\n    print(n)",
        "def f():\n    global g\n    g = 1\ndef h():\n    return g",
        "match 3:\n    case {'a': a, **rest}:\n        print(a, rest)",
        "match 3:\n    case [*many]:\n        print(many)",
        "def f(n):\n    def g():\n        nonlocal n\n        n = 2\n    return g",
        "from math import *\nprint(anything)",
        "f = lambda x: x + 1",
        "def f(x):\n    return (lambda: x)()",
    ],
)
def test_names_with_a_value_are_not_told(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("print(x)", ["x"]),
        ("def f():\n    return y", ["y"]),
        ("def f():\n    y = y + 1", ["y"]),
        ("def f():\n    y += 1", ["y"]),
        ("print(f())\ndef f():\n    pass", ["f"]),
        ("class A(B):\n    pass", ["B"]),
        ("class A:\n    x = 1\n    def f(self):\n        return x", ["x"]),
        ("@d\ndef f(a: T = z):\n    pass", ["d", "z", "T"]),
        ("[a for a in b]", ["b"]),
        ("def f():\n    print(x)\n    for x in []:\n        pass", ["x"]),
    ],
)
def test_names_without_a_value(text: str, missing: list[str]) -> None:
    assert read(text) == missing


def test_an_attribute_of_self_is_lost_with_what_set_it() -> None:
    text = "class A:\n    def __init__(self):\n        self.a = 1\n"
    text += "    def f(self):\n        return self.a\n"
    before = find_names(ast.parse(text))
    after = find_names(ast.parse(text.replace("self.a = 1", "pass")))
    assert [use.name for use in after.lost(before)] == ["a"]
    assert before.lost(before) == []


def test_an_attribute_that_a_base_may_set_is_no_loss() -> None:
    before = find_names(ast.parse("class A(B):\n    def f(self):\n        return self.weight"))
    assert before.lost(before) == []
