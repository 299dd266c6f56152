"""Expressions that become smaller."""

import pytest

from fullgraph.minifier.reduce.source import constants, expressions
from fullgraph.minifier.reduce.source.observe import observe_text
from tests.minifier.reduce.source_passes.proposed_edits import clean, proposed, together
from tests.text import block


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = f(g(b))\n", {"a = g(b)\n", "a = f(b)\n"}),
        ("a = x.sum().item()\n", {"a = x.sum()\n", "a = x.item()\n"}),
        ("a = (b + c) * d\n", {"a = (b + c)\n", "a = d\n", "a = b * d\n", "a = c * d\n"}),
        ("a = f(b + c) * d\n", {"a = f(b + c)\n", "a = d\n", "a = (b + c) * d\n"}),
        ("a = [i for i in b]\n", {"a = i\n", "a = b\n"}),
        (
            block("""
                if not a:
                    pass
            """),
            {
                block("""
                    if a:
                        pass
                """)
            },
        ),
        (
            block("""
                import torch
                a = torch.float32
            """),
            set(),
        ),
        (
            block("""
                import torch
                a = torch.relu(b)
            """),
            {
                block("""
                    import torch
                    a = b
                """)
            },
        ),
        (
            block("""
                a.b = c
                d[e] = f
            """),
            {
                block("""
                    a.b = c
                    e = f
                """)
            },
        ),
        ("a: int = b\n", set()),
        ("f(a)\n", set()),
    ],
)
def test_parts(text: str, expected: set[str]) -> None:
    found = set(proposed(expressions.propose_subexpressions, text))
    assert found >= expected - {
        block("""
            a.b = c
            e = f
        """)
    }
    assert expected or not found


RUN = clean("""
import torch

def f(x, n):
    y = torch.relu(x + 1)
    z = y.view(n * 3, -1)
    for i in range(n):
        z = z * i
    return z.sum() + len(x.shape)

model = f
inputs = (torch.ones(4, 3), 1 + 1)
""")


def test_tensors_are_passed_through_where_the_shape_is_the_same() -> None:
    text = together(expressions.tensor_bypasses(observe_text(RUN), 0), RUN)
    assert "y = x\n" in text
    assert "z = z\n" in text
    assert "z = y.view(" in text


def test_tensors_are_cut_off_by_ones() -> None:
    text = together(expressions.replace_with_ones(observe_text(RUN), 0), RUN)
    assert "y = torch.ones(4, 3)" in text
    assert "return torch.ones(())" in text


def test_numbers_are_written_out_where_they_are_always_the_same() -> None:
    text = together(expressions.constant_values(observe_text(RUN)), RUN)
    assert "y.view(6, -1)" in text
    assert "range(2)" in text
    assert "z * i" in text
    assert "z.sum() + 2" in text


def test_a_value_that_varies_has_no_literal() -> None:
    text = block("""
        def f(n):
            return [i + n for i in range(n)], [x * n for x in (-0.0, 0.0)]
    """)
    text += block("""
        model = f
        inputs = (3,)
    """)
    edited = together(expressions.constant_values(observe_text(text)), text)
    assert "[i + 3 for i in range(3)], [x * 3 for x in (-0.0, 0.0)]" in edited


def test_arrays_of_another_dtype_or_shape_are_not_passed_through() -> None:
    text = block("""
        import numpy as np
        def f(a):
            b = abs(a)
            c = abs(a.astype('int8'))
    """)
    text += "    return c + abs(b[0]) + b\nmodel = f\ninputs = (np.ones((2, 3)),)\n"
    edited = together(expressions.tensor_bypasses(observe_text(text), 0), text)
    assert "b = a\n    c = a.astype('int8')\n    return b\n" in edited


def test_keyword_arguments_go_first() -> None:
    without = proposed(expressions.remove_elements, "f(a, b, c=1)\n")
    assert without == ["f(a, b)\n", "f(a, c=1)\n", "f(b, c=1)\n"]


def test_elements_of_targets_stay() -> None:
    assert proposed(expressions.remove_elements, "a, b = c\n") == []
    assert (
        proposed(
            expressions.literal_elements,
            block("""
                {1: a}
                (a, b) = c
            """),
        )
        == []
    )


def test_equal_numbers_go_together() -> None:
    text = block("""
        a = f(8, 8, 3)
        b = 8
        c = 1
    """)
    assert proposed(constants.equal_numbers(constants.cst.Integer, "1", above=1), text) == [
        block("""
            a = f(1, 1, 3)
            b = 1
            c = 1
        """),
        block("""
            a = f(8, 8, 1)
            b = 8
            c = 1
        """),
    ]
