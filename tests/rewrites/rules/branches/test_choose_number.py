import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = "import torch\n\n\n"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


def _leaf(x):
    return x.clone().requires_grad_()


def _function(body, *names):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}def f({', '.join(names or ('x',))}):\n{lines}"


@pytest.mark.parametrize(
    ("body", "call", "reason"),
    [
        (
            block("""
                n = x.sum().item()
                if n > 0:
                    n = 1.0
                return x, n"""),
            "x.sum().item()",
            "cannot stand",
        ),
        (
            block("""
                n = x.sum().item()
                if n > 0:
                    n = 1.0
                return x * int(n)"""),
            "x.sum().item()",
            "cannot stand",
        ),
        (
            block("""
                n = float(x.sum())
                if n > 0:
                    raise ValueError(n)
                return x * n"""),
            "float(x.sum())",
            "",
        ),
        (
            block("""
                n = x.sum().item()
                if n > 0:
                    n = 2.0
                return x.long() * n"""),
            "x.sum().item()",
            "not of a floating dtype",
        ),
        (
            block("""
                n = x.dim()
                if n > 0:
                    n = 2.0
                return x * n"""),
            "x.dim()",
            "",
        ),
        (
            block("""
                n = (x > 0).int().max().item()
                if n == 0:
                    n = 1
                return x / n"""),
            "(x > 0).int().max().item()",
            "float or int64",
        ),
    ],
)
def test_left_alone(body, call, reason):
    source = _function(body)
    text, _, refusals = offered(source, call, "data-dependent branch", X)
    assert not text
    assert any(reason in one for one in refusals) or not reason, refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                w = x.abs()
                total = float( w.sum() )  # of all
                if total == 0:
                    total = 1.0  # nothing
                return w / total"""),
            block("""
                w = x.abs()
                total = w.sum().detach()  # of all
                # nothing
                total = torch.where(total == 0, 1.0, total)
                return w / total"""),
        ),
        (
            block("""
                n = x.sum().item()
                if n <= 0:
                    n = 1e-6
                return x / n"""),
            block("""
                n = x.sum().detach()
                n = torch.where(n <= 0, 1e-6, n)
                return x / n"""),
        ),
        (
            block("""
                n = (x > 0).sum().item()
                if n == 0:
                    n = 1
                return x.sum() / n"""),
            block("""
                n = (x > 0).sum()
                n = torch.where(n == 0, 1, n)
                return x.sum() / n"""),
        ),
        (
            block("""
                loss = x * 2
                n = int((x > 0).sum())
                if n < 2:
                    n = 2
                loss /= n * 2
                return loss"""),
            block("""
                loss = x * 2
                n = (x > 0).sum()
                n = torch.where(n < 2, 2, n)
                loss /= n * 2
                return loss"""),
        ),
        (
            block("""
                n = (x > 0).sum().item()
                if n == 0:
                    n = 1e-6
                return x / n"""),
            block("""
                n = (x > 0).sum().double()
                n = torch.where(n == 0, 1e-6, n)
                return x / n"""),
        ),
        (
            block("""
                n = (x > 0).sum().item()
                if n == 0:
                    n = 1
                return x.sum() * (1 / n)"""),
            block("""
                n = (x > 0).sum().double()
                n = torch.where(n == 0, 1, n)
                return (x.sum()[None] * (1 / n)).squeeze(0)"""),
        ),
        (
            block("""
                n = x.norm().item()
                y = x * 2
                if n > 0.1:
                    y = y / n
                return y + n"""),
            None,
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(_function(before), _leaf(X))
    assert after is None or outcome.source == _function(after)
    assert outcome.rules == ["FG305"]
    double = "`x` is of a floating dtype on all inputs, for the number is a float64 tensor"
    assert outcome.assumes in ([], [double])
    outcome.check((_leaf(-X),), (_leaf(X * 0),))


def test_a_count_stays_apart_from_the_buffer_that_holds_it():
    body = block("""
        n = x.item()
        if n == 0:
            n = 1
        x.add_(1)
        return w / n""")
    outcome = rewritten(_function(body, "x", "w"), torch.tensor(3), X)
    assert "n = x.clone()" in outcome.source
    outcome.check((torch.tensor(0), X))


def test_a_divisor_that_no_branch_compares_is_assumed_to_be_nonzero():
    body = block("""
        n = x.sum().item()
        m = n - 1
        if n > 2:
            n = 2.0
        return x * (n / m)""")
    outcome = rewritten(_function(body), X)
    assert outcome.assumes == ["`m` is not zero, for otherwise Python raises"]


def test_unsafe_where_a_gradient_of_zero_takes_the_place_of_none():
    w = torch.ones(4, requires_grad=True)
    body = block("""
        n = x.sum().item()
        if n > 0:
            x = x * w
        return x / n""")
    outcome = rewritten(_function(body, "x", "w"), X, w)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert "`w` may get a gradient of zero where it got none" in outcome.assumes
    outcome.check((-X, _leaf(w.detach())), zero_is_none=True)


def test_a_count_of_a_mask_decides_about_stores_by_that_mask():
    body = block("""
        w, n = torch.zeros_like(x), 0
        for low in (0.0, 0.5, 5.0):
            m = x > low
            count = m.sum().item()
            if count > 0:
                if keeps:
                    old[0] = old[0] + count
                    w[m] = x.sum() / old[0]
                else:
                    w[m] = x.sum() / count
                n += 1
        return w / n""")
    source = _function(body, "x", "keeps", "old")
    outcome = rewritten(source, _leaf(X), False, torch.ones(1))
    assert "            w.masked_fill_(m, x.sum() / count.clamp(min=1))\n" in outcome.source
    assert "            old[0] = torch.where(condition, old[0] + count, old[0])" in outcome.source
    assert "        n = torch.where(condition, n + 1, n)\n" in outcome.source
    outcome.check()


def test_a_store_by_a_mask_that_may_be_empty_needs_no_condition():
    body = block("""
        w, n = torch.zeros_like(x), 0
        for low in (0.0, 5.0):
            m = x > low
            count = int(m.sum())
            if count == 0:
                continue
            w[m] = 3 / count
            n += 1
        return w / n""")
    outcome = rewritten(_function(body), X)
    assert "    w.masked_fill_(m, 3 / count.clamp(min=1))\n" in outcome.source
    assert outcome.after.default.ok and outcome.after.fullgraph.ok
    outcome.check((X * 100,))
