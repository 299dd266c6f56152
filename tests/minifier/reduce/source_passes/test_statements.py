"""Statements that go."""

import pytest

from fullgraph.minifier.reduce.source import statements
from fullgraph.minifier.reduce.source.observe import observe_text
from tests.minifier.reduce.source_passes.proposed_edits import clean, proposed, together


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a:\n    b\n", ["b\n"]),
        ("if a:\n    b\nelse:\n    c\n", ["b\n", "c\n"]),
        ("for i in range(3):\n    f(i)\n", ["i = 0\nf(i)\n", "f(i)\n"]),
        ("for i in range(2, 3):\n    f(i)\n", ["i = 2\nf(i)\n", "f(i)\n"]),
        ("for a in self.b:\n    f(a)\n", ["a = self.b[0]\nf(a)\n", "f(a)\n"]),
        ("for a in g():\n    f(a)\n", ["a = next(iter(g()))\nf(a)\n", "f(a)\n"]),
        ("for i, a in enumerate(b):\n    f(a)\n", ["i, a = (0, b[0])\nf(a)\n", "f(a)\n"]),
        ("for a, b in zip(c, d):\n    f(a)\n", ["a, b = (c[0], d[0])\nf(a)\n", "f(a)\n"]),
        ("while a:\n    b\n    break\n", ["b\n"]),
        ("with a as b:\n    c\n", ["b = a\nc\n"]),
        ("try:\n    a\nexcept E:\n    b\n", ["a\n"]),
        ("x = 1\ndef f():\n    return 2\n", []),
    ],
)
def test_compound_statements_become_what_they_hold(text: str, expected: list[str]) -> None:
    assert proposed(statements.unwrap_compounds, text) == expected


def test_an_elif_becomes_an_else() -> None:
    text = "if a:\n    b\nelif c:\n    d\n"
    assert "if a:\n    b\nelse:\n    d\n" in proposed(statements.unwrap_compounds, text)
    assert "if c:\n    d\n" in proposed(statements.unwrap_compounds, text)


def test_a_part_of_a_statement_takes_its_place() -> None:
    text = "a[f(b)] = g(c)\nd.append(next(e))\nf(1).g()\n"
    first, *_ = lines = [after.splitlines() for after in proposed(statements.bare_values, text)]
    assert first == ["g(c)", "d.append(next(e))", "f(1).g()"]
    assert [after[number] for number, after in enumerate(lines[1:])] == ["f(b)", "next(e)", "f(1)"]


def test_a_block_keeps_a_pass() -> None:
    assert together(statements.at_depth(1), "if a:\n    b\n    c\n") == "if a:\n    pass\n"


def test_removals_begin_outside() -> None:
    assert proposed(statements.remove_statements, "if a:\n    b\nc\n")[:2] == [
        "c\n",
        "if a:\n    b\n",
    ]


def test_conditions_that_are_known() -> None:
    text = "if True:\n    a\nelse:\n    b\nif False:\n    c\nif d:\n    e\n"
    assert together(statements.constant_branches, text) == "a\nif d:\n    e\n"


def test_what_is_assigned_and_never_read() -> None:
    text = """
    def f(self, x):
        y = x
        x = x
        z = x + 1
        self.a = 1
        self.b = 2
        return z + self.b
    """
    assert together(statements.unread_assignments, text) == clean("""
    def f(self, x):
        z = x + 1
        self.b = 2
        return z + self.b
    """)


@pytest.mark.compiles
def test_lines_that_do_not_run() -> None:
    text = clean("""
    def f(x):
        if x > 3:
            x = x * 2
        else:
            x = x + 1
        return x

    model = f
    inputs = (1,)
    """)
    assert "x * 2" not in together(statements.remove_unexecuted(observe_text(text)), text)
    assert "x + 1" in together(statements.remove_unexecuted(observe_text(text)), text)
