"""Branches whose values are zero where a mask selects nothing need no `torch.where` (FG301)."""

import pytest
import torch

from tests.rewrites.harness import rewritten

pytestmark = pytest.mark.compiles

X = torch.tensor([0.9, -0.2, 0.7, 0.1])


def _leaf(x):
    return x.clone().requires_grad_()


def _function(body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"import torch\n\n\ndef f(x, m):\n{lines}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "loss = torch.zeros(2)\nn = m.sum().clamp(min=1)\nloss[1] = x.mean()\n"
            "if m.sum() > 0:\n    gap = torch.where(m, x - 1, 0).abs()\n"
            "    loss[0] = (gap * gap).sum() / n\nreturn loss",
            "loss = torch.zeros(2)\nn = m.sum().clamp(min=1)\nloss[1] = x.mean()\n"
            "gap = torch.where(m, x - 1, 0).abs()\n"
            "loss[0] = (gap * gap).sum() / n\nreturn loss",
        ),
        (
            "total = x.mean()\nif m.any():\n"
            "    total = total + torch.where(m, torch.where(m, x, 1).log(), 0).sum()\nreturn total",
            "total = x.mean()\n"
            "total = total + torch.where(m, torch.where(m, x, 1).log(), 0).sum()\nreturn total",
        ),
        (
            "loss = torch.zeros(())\nif m.any():\n"
            "    loss = 2 * torch.where(m, x, 0).sum() / m.sum().clamp(min=1)\nreturn loss",
            "loss = torch.zeros(())\n"
            "loss = 2 * torch.where(m, x, 0).sum() / m.sum().clamp(min=1)\nreturn loss",
        ),
        (
            "kept = torch.where(m, x, 0)\nif m.sum() == 0:\n    return kept.sum()\n"
            "return kept.sum() / (m.sum() * 2)",
            "kept = torch.where(m, x, 0)\nreturn kept.sum() / (m.sum().clamp(min=1) * 2)",
        ),
        (
            "kept = torch.where(m, x, 0)\nif m.any():\n"
            "    loss = torch.nn.functional.binary_cross_entropy_with_logits(\n"
            '        kept, torch.ones_like(kept), weight=m, reduction="sum"\n    ) / m.sum()\n'
            "else:\n    loss = kept.sum()\nreturn loss",
            "kept = torch.where(m, x, 0)\n"
            "loss = torch.nn.functional.binary_cross_entropy_with_logits(\n"
            '    kept, torch.ones_like(kept), weight=m, reduction="sum"\n'
            ") / m.sum().clamp(min=1)\nreturn loss",
        ),
    ],
)
def test_what_is_zero_already_is_not_selected(before, after):
    outcome = rewritten(_function(before), _leaf(X), X > 0)
    assert outcome.source == _function(after)
    outcome.check((_leaf(X), X > 9), zero_is_none=True)


@pytest.mark.parametrize(
    "body",
    [
        "loss = torch.zeros(2)\nloss[0] = 3\nif m.any():\n"
        "    loss[0] = torch.where(m, x, 0).sum()\nreturn loss",
        "loss = torch.zeros(())\nif m.any():\n"
        "    loss = torch.where(m, x, 0).sum() / (x > 1).sum()\nreturn loss",
        "loss = torch.zeros(())\nif m.any():\n    loss = torch.where(x < 9, x, 0).sum()\n"
        "return loss",
        "loss = torch.ones(())\nif m.any():\n    loss = torch.where(m, x, 0).sum()\nreturn loss",
    ],
)
def test_what_is_not_zero_is_selected(body):
    outcome = rewritten(_function(body), _leaf(X), X > 0)
    text = outcome.source.replace("(\n        ", "(")
    assert "torch.where(m.any()," in text or "torch.where(condition," in text
    outcome.check((_leaf(X), X > 9), zero_is_none=True)


@pytest.mark.parametrize("count", ["m.sum()", "(x > 0).float().sum()", "ones.long().sum()"])
def test_a_count_that_is_a_divisor_is_at_least_one(count):
    first = f"ones = (x > 0).double()\nn = {count}"
    body = f"{first}\nif n == 0:\n    return x.mean()\nreturn x.sum() / n"
    outcome = rewritten(_function(body), _leaf(X), X > 0)
    new = "return torch.where(n == 0, x.mean(), x.sum() / n.clamp(min=1))"
    assert outcome.source == _function(f"{first}\n{new}")
    outcome.check((_leaf(X), X > 9))


@pytest.mark.parametrize(
    "body",
    [
        "y = torch.where(m, x, 0)\nm[0] = True\nif m.any():\n    return y.sum()\n"
        "return x.mean() * 0",
        "y = torch.zeros(())\nother = y\nother += 1\nif m.any():\n"
        "    y = torch.where(m, x, 0).sum()\nreturn y",
        "y = torch.zeros(2)\nfirst = y[0]\nfirst += 1\nif m.any():\n"
        "    y[0] = torch.where(m, x, 0).sum()\nreturn y",
        "y = torch.zeros(())\nif m.any():\n    y = torch.where(m, x.log(), 0).sum()\nreturn y",
        "y = torch.zeros(())\nif m.any():\n    y = torch.where(m, x, 0).sum() / len(x)\nreturn y",
        "y = torch.where(m, x, 0)\ny[3] = 5\nloss = torch.zeros(())\nif m.any():\n"
        "    loss = y.sum()\nreturn loss",
    ],
)
def test_what_may_not_be_zero_is_selected(body):
    outcome = rewritten(_function(body), X, X > 0)
    assert "if" not in outcome.source
    assert "torch.where(m.any()," in outcome.source or "condition = m.any()" in outcome.source
    outcome.check((X, X > 9))


def test_equality_of_other_shapes_is_a_choice():
    body = "if (x == m).all():\n    y = x * 2\nelse:\n    y = m * 2\nreturn y.sum()"
    outcome = rewritten(_function(body), torch.ones(3), torch.ones(2, 3))
    assert "FG301" not in outcome.rules
