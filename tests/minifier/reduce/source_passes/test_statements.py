"""Statements that go."""

import pytest

from fullgraph.minifier.reduce.source import statements
from fullgraph.minifier.reduce.source.observe import observe_text
from tests.minifier.reduce.source_passes.proposed_edits import clean, proposed, together
from tests.text import block


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            block("""
                if a:
                    b
            """),
            ["b\n"],
        ),
        (
            block("""
                if a:
                    b
                else:
                    c
            """),
            ["b\n", "c\n"],
        ),
        (
            block("""
                for i in range(3):
                    f(i)
            """),
            [
                block("""
                    i = 0
                    f(i)
                """),
                "f(i)\n",
            ],
        ),
        (
            block("""
                for i in range(2, 3):
                    f(i)
            """),
            [
                block("""
                    i = 2
                    f(i)
                """),
                "f(i)\n",
            ],
        ),
        (
            block("""
                for a in self.b:
                    f(a)
            """),
            [
                block("""
                    a = self.b[0]
                    f(a)
                """),
                "f(a)\n",
            ],
        ),
        (
            block("""
                for a in g():
                    f(a)
            """),
            [
                block("""
                    a = next(iter(g()))
                    f(a)
                """),
                "f(a)\n",
            ],
        ),
        (
            block("""
                for i, a in enumerate(b):
                    f(a)
            """),
            [
                block("""
                    i, a = (0, b[0])
                    f(a)
                """),
                "f(a)\n",
            ],
        ),
        (
            block("""
                for a, b in zip(c, d):
                    f(a)
            """),
            [
                block("""
                    a, b = (c[0], d[0])
                    f(a)
                """),
                "f(a)\n",
            ],
        ),
        (
            block("""
                while a:
                    b
                    break
            """),
            ["b\n"],
        ),
        (
            block("""
                with a as b:
                    c
            """),
            [
                block("""
                    b = a
                    c
                """)
            ],
        ),
        (
            block("""
                try:
                    a
                except E:
                    b
            """),
            ["a\n"],
        ),
        (
            block("""
                x = 1
                def f():
                    return 2
            """),
            [],
        ),
    ],
)
def test_compound_statements_become_what_they_hold(text: str, expected: list[str]) -> None:
    assert proposed(statements.unwrap_compounds, text) == expected


def test_an_elif_becomes_an_else() -> None:
    text = block("""
        if a:
            b
        elif c:
            d
    """)
    assert block("""
        if a:
            b
        else:
            d
    """) in proposed(statements.unwrap_compounds, text)
    assert block("""
        if c:
            d
    """) in proposed(statements.unwrap_compounds, text)


def test_a_part_of_a_statement_takes_its_place() -> None:
    text = block("""
        a[f(b)] = g(c)
        d.append(next(e))
        f(1).g()
    """)
    first, *_ = lines = [after.splitlines() for after in proposed(statements.bare_values, text)]
    assert first == ["g(c)", "d.append(next(e))", "f(1).g()"]
    assert [after[number] for number, after in enumerate(lines[1:])] == ["f(b)", "next(e)", "f(1)"]


def test_a_block_keeps_a_pass() -> None:
    assert together(
        statements.at_depth(1),
        block("""
            if a:
                b
                c
        """),
    ) == block("""
        if a:
            pass
    """)


def test_removals_begin_outside() -> None:
    assert proposed(
        statements.remove_statements,
        block("""
            if a:
                b
            c
        """),
    )[:2] == [
        "c\n",
        block("""
            if a:
                b
        """),
    ]


def test_conditions_that_are_known() -> None:
    text = block("""
        if True:
            a
        else:
            b
        if False:
            c
        if d:
            e
    """)
    assert together(statements.constant_branches, text) == block("""
        a
        if d:
            e
    """)


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
