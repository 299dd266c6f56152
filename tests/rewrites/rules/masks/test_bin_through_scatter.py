import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

HEAD = "import torch\n\n\n"
LABELS = torch.tensor([0, 3, 1, 3, 0, 2])
SCORES = torch.rand(6, 4)


@pytest.mark.parametrize(
    "expression",
    ["torch.bincount(x)", "x.bincount()", "torch.bincount(x + 1, minlength=9)", "torch.unique(x)"],
)
def test_left_alone(expression):
    category = "dynamic output shape" if "unique" in expression else "bincount"
    source = f"{HEAD}def f(x):\n    return {expression}\n"
    text, _, refusals = offered(source, expression, category, LABELS)
    assert not text
    assert refusals


@pytest.mark.parametrize(
    ("made", "counted", "after"),
    [
        (
            "x.argmax(1)",
            "torch.bincount(y, minlength=4)  # classes",
            "torch.zeros(4, dtype=torch.long, device=y.device)"
            ".scatter_add_(0, y, torch.ones_like(y))  # classes",
        ),
        (
            "x[:, 0].mul(9).long().clamp(0, 4)",
            "torch.bincount( y, weights = x[:, 1], minlength = 5 )",
            "torch.zeros(5, dtype=torch.float, device=y.device).scatter_add_(0, y, x[:, 1])",
        ),
        (
            "(x[:, 0] * 99).int() % 7",
            "y.bincount(minlength=7)",
            "torch.zeros(7, dtype=torch.long, device=y.device)"
            ".scatter_add_(0, y.long(), torch.ones_like(y.long()))",
        ),
    ],
)
def test_fixed(made, counted, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    y = {made}\n    return {counted}\n", SCORES)
    assert outcome.source == f"{HEAD}def f(x):\n    y = {made}\n    return {after}\n"
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((torch.rand(9, 4),))


def test_unsafe_where_an_element_may_be_too_large():
    source = f"{HEAD}def f(x):\n    return torch.bincount(x, minlength=4)\n"
    outcome = rewritten(source, LABELS)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert outcome.assumes == ["no element of `x` is 4 or more"]
    outcome.check()


def test_repeats_are_shown_with_a_size():
    source = f"{HEAD}def f(x, n):\n    return x.repeat_interleave(n, dim=0)\n"
    call = "x.repeat_interleave(n, dim=0)"
    text, (rewrite,), _ = offered(source, call, "dynamic output shape", SCORES, LABELS)
    assert "x.repeat_interleave(n, dim=0, output_size=9)" in text
    assert rewrite.applicability is Applicability.DISPLAY
