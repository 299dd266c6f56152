"""Expressions that become smaller."""

import pytest

from fullgraph.minifier.reduce.source import constants, expressions
from fullgraph.minifier.reduce.source.observe import observe
from tests.minifier.reduce.python.proposing import clean, proposed, together


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = f(g(b))\n", {"a = g(b)\n", "a = f(b)\n"}),
        ("a = x.sum().item()\n", {"a = x.sum()\n", "a = x.item()\n"}),
        ("a = (b + c) * d\n", {"a = (b + c)\n", "a = d\n", "a = b * d\n", "a = c * d\n"}),
        ("a = f(b + c) * d\n", {"a = f(b + c)\n", "a = d\n", "a = (b + c) * d\n"}),
        ("a = [i for i in b]\n", {"a = i\n", "a = b\n"}),
        ("if not a:\n    pass\n", {"if a:\n    pass\n"}),
        ("import torch\na = torch.float32\n", set()),
        ("import torch\na = torch.relu(b)\n", {"import torch\na = b\n"}),
        ("a.b = c\nd[e] = f\n", {"a.b = c\ne = f\n"}),
        ("a: int = b\n", set()),
        ("f(a)\n", set()),
    ],
)
def test_parts(text: str, expected: set[str]) -> None:
    found = set(proposed(expressions.propose_subexpressions, text))
    assert found >= expected - {"a.b = c\ne = f\n"}
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
    text = together(expressions.tensor_bypasses(observe(RUN), 0), RUN)
    assert "y = x\n" in text
    assert "z = z\n" in text
    assert "z = y.view(" in text


def test_tensors_are_cut_off_by_ones() -> None:
    text = together(expressions.replace_with_ones(observe(RUN), 0), RUN)
    assert "y = torch.ones(4, 3)" in text
    assert "return torch.ones(())" in text


def test_numbers_are_written_out_where_they_are_always_the_same() -> None:
    text = together(expressions.constant_values(observe(RUN)), RUN)
    assert "y.view(6, -1)" in text
    assert "range(2)" in text
    assert "z * i" in text
    assert "z.sum() + 2" in text


def test_keyword_arguments_go_first() -> None:
    without = proposed(expressions.remove_elements, "f(a, b, c=1)\n")
    assert without == ["f(a, b)\n", "f(a, c=1)\n", "f(b, c=1)\n"]


def test_elements_of_targets_stay() -> None:
    assert proposed(expressions.remove_elements, "a, b = c\n") == []
    assert proposed(expressions.literal_elements, "{1: a}\n(a, b) = c\n") == []


def test_equal_numbers_go_together() -> None:
    text = "a = f(8, 8, 3)\nb = 8\nc = 1\n"
    assert proposed(constants.equal_numbers(constants.cst.Integer, "1", above=1), text) == [
        "a = f(1, 1, 3)\nb = 1\nc = 1\n",
        "a = f(8, 8, 1)\nb = 8\nc = 1\n",
    ]
