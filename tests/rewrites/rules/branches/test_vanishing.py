"""Branches whose values are zero where a mask selects nothing need no `torch.where` (FG301)."""

import pytest
import torch

from tests.rewrites.harness import rewritten
from tests.text import block

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
            block("""
                loss = torch.zeros(2)
                n = m.sum().clamp(min=1)
                loss[1] = x.mean()
                if m.sum() > 0:
                    gap = torch.where(m, x - 1, 0).abs()
                    loss[0] = (gap * gap).sum() / n
                return loss"""),
            block("""
                loss = torch.zeros(2)
                n = m.sum().clamp(min=1)
                loss[1] = x.mean()
                gap = torch.where(m, x - 1, 0).abs()
                loss[0] = (gap * gap).sum() / n
                return loss"""),
        ),
        (
            block("""
                total = x.mean()
                if m.any():
                    total = total + torch.where(m, torch.where(m, x, 1).log(), 0).sum()
                return total"""),
            block("""
                total = x.mean()
                total = total + torch.where(m, torch.where(m, x, 1).log(), 0).sum()
                return total"""),
        ),
        (
            block("""
                loss = torch.zeros(())
                if m.any():
                    loss = 2 * torch.where(m, x, 0).sum() / m.sum().clamp(min=1)
                return loss"""),
            block("""
                loss = torch.zeros(())
                loss = 2 * torch.where(m, x, 0).sum() / m.sum().clamp(min=1)
                return loss"""),
        ),
        (
            block("""
                kept = torch.where(m, x, 0)
                if m.sum() == 0:
                    return kept.sum()
                return kept.sum() / (m.sum() * 2)"""),
            block("""
                kept = torch.where(m, x, 0)
                return kept.sum() / (m.sum().clamp(min=1) * 2)"""),
        ),
        (
            block("""
                kept = torch.where(m, x, 0)
                if m.any():
                    loss = torch.nn.functional.binary_cross_entropy_with_logits(
                        kept, torch.ones_like(kept), weight=m, reduction="sum"
                    ) / m.sum()
                else:
                    loss = kept.sum()
                return loss"""),
            block("""
                kept = torch.where(m, x, 0)
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    kept, torch.ones_like(kept), weight=m, reduction="sum"
                ) / m.sum().clamp(min=1)
                return loss"""),
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
        block("""
            loss = torch.zeros(2)
            loss[0] = 3
            if m.any():
                loss[0] = torch.where(m, x, 0).sum()
            return loss"""),
        block("""
            loss = torch.zeros(())
            if m.any():
                loss = torch.where(m, x, 0).sum() / (x > 1).sum()
            return loss"""),
        block("""
            loss = torch.zeros(())
            if m.any():
                loss = torch.where(x < 9, x, 0).sum()
            return loss"""),
        block("""
            loss = torch.ones(())
            if m.any():
                loss = torch.where(m, x, 0).sum()
            return loss"""),
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
        block("""
            y = torch.where(m, x, 0)
            m[0] = True
            if m.any():
                return y.sum()
            return x.mean() * 0"""),
        block("""
            y = torch.zeros(())
            other = y
            other += 1
            if m.any():
                y = torch.where(m, x, 0).sum()
            return y"""),
        block("""
            y = torch.zeros(2)
            first = y[0]
            first += 1
            if m.any():
                y[0] = torch.where(m, x, 0).sum()
            return y"""),
        block("""
            y = torch.zeros(())
            if m.any():
                y = torch.where(m, x.log(), 0).sum()
            return y"""),
        block("""
            y = torch.zeros(())
            if m.any():
                y = torch.where(m, x, 0).sum() / len(x)
            return y"""),
        block("""
            y = torch.where(m, x, 0)
            y[3] = 5
            loss = torch.zeros(())
            if m.any():
                loss = y.sum()
            return loss"""),
    ],
)
def test_what_may_not_be_zero_is_selected(body):
    outcome = rewritten(_function(body), X, X > 0)
    assert "if" not in outcome.source
    assert "torch.where(m.any()," in outcome.source or "condition = m.any()" in outcome.source
    outcome.check((X, X > 9))


def test_equality_of_other_shapes_is_a_choice():
    body = block("""
        if (x == m).all():
            y = x * 2
        else:
            y = m * 2
        return y.sum()""")
    outcome = rewritten(_function(body), torch.ones(3), torch.ones(2, 3))
    assert "FG301" not in outcome.rules
