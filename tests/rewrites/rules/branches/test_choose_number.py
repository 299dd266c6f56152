import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

pytestmark = pytest.mark.compiles

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
            "n = x.sum().item()\nif n > 0:\n    n = 1.0\nreturn x, n",
            "x.sum().item()",
            "cannot stand",
        ),
        (
            "n = x.sum().item()\nif n > 0:\n    n = 1.0\nreturn x * int(n)",
            "x.sum().item()",
            "cannot stand",
        ),
        (
            "n = float(x.sum())\nif n > 0:\n    raise ValueError(n)\nreturn x * n",
            "float(x.sum())",
            "",
        ),
        (
            "n = x.sum().item()\nif n > 0:\n    n = 2.0\nreturn x.long() * n",
            "x.sum().item()",
            "not of a floating dtype",
        ),
        ("n = x.dim()\nif n > 0:\n    n = 2.0\nreturn x * n", "x.dim()", ""),
        (
            "n = (x > 0).int().max().item()\nif n == 0:\n    n = 1\nreturn x / n",
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
            "w = x.abs()\ntotal = float( w.sum() )  # of all\nif total == 0:\n"
            "    total = 1.0  # nothing\nreturn w / total",
            "w = x.abs()\ntotal = w.sum().detach()  # of all\n# nothing\n"
            "total = torch.where(total == 0, 1.0, total)\nreturn w / total",
        ),
        (
            "n = x.sum().item()\nif n <= 0:\n    n = 1e-6\nreturn x / n",
            "n = x.sum().detach()\nn = torch.where(n <= 0, 1e-6, n)\nreturn x / n",
        ),
        (
            "n = (x > 0).sum().item()\nif n == 0:\n    n = 1\nreturn x.sum() / n",
            "n = (x > 0).sum()\nn = torch.where(n == 0, 1, n)\nreturn x.sum() / n",
        ),
        (
            "loss = x * 2\nn = int((x > 0).sum())\nif n < 2:\n    n = 2\nloss /= n * 2\n"
            "return loss",
            "loss = x * 2\nn = (x > 0).sum()\nn = torch.where(n < 2, 2, n)\nloss /= n * 2\n"
            "return loss",
        ),
        (
            "n = (x > 0).sum().item()\nif n == 0:\n    n = 1e-6\nreturn x / n",
            "n = (x > 0).sum().double()\nn = torch.where(n == 0, 1e-6, n)\nreturn x / n",
        ),
        (
            "n = (x > 0).sum().item()\nif n == 0:\n    n = 1\nreturn x.sum() * (1 / n)",
            "n = (x > 0).sum().double()\nn = torch.where(n == 0, 1, n)\n"
            "return (x.sum()[None] * (1 / n)).squeeze(0)",
        ),
        (
            "n = x.norm().item()\ny = x * 2\nif n > 0.1:\n    y = y / n\nreturn y + n",
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
    body = "n = x.item()\nif n == 0:\n    n = 1\nx.add_(1)\nreturn w / n"
    outcome = rewritten(_function(body, "x", "w"), torch.tensor(3), X)
    assert "n = x.clone()" in outcome.source
    outcome.check((torch.tensor(0), X))


def test_a_divisor_that_no_branch_compares_is_assumed_to_be_nonzero():
    body = "n = x.sum().item()\nm = n - 1\nif n > 2:\n    n = 2.0\nreturn x * (n / m)"
    outcome = rewritten(_function(body), X)
    assert outcome.assumes == ["`m` is not zero, for otherwise Python raises"]


def test_unsafe_where_a_gradient_of_zero_takes_the_place_of_none():
    w = torch.ones(4, requires_grad=True)
    body = "n = x.sum().item()\nif n > 0:\n    x = x * w\nreturn x / n"
    outcome = rewritten(_function(body, "x", "w"), X, w)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert "`w` may get a gradient of zero where it got none" in outcome.assumes
    outcome.check((-X, _leaf(w.detach())), zero_is_none=True)


def test_a_count_of_a_mask_decides_about_stores_by_that_mask():
    body = (
        "w, n = torch.zeros_like(x), 0\n"
        "for low in (0.0, 0.5, 5.0):\n"
        "    m = x > low\n"
        "    count = m.sum().item()\n"
        "    if count > 0:\n"
        "        if keeps:\n"
        "            old[0] = old[0] + count\n"
        "            w[m] = x.sum() / old[0]\n"
        "        else:\n"
        "            w[m] = x.sum() / count\n"
        "        n += 1\n"
        "return w / n"
    )
    source = _function(body, "x", "keeps", "old")
    outcome = rewritten(source, _leaf(X), False, torch.ones(1))
    assert "            w.masked_fill_(m, x.sum() / count.clamp(min=1))\n" in outcome.source
    assert "            old[0] = torch.where(condition, old[0] + count, old[0])" in outcome.source
    assert "        n = torch.where(condition, n + 1, n)\n" in outcome.source
    outcome.check()


def test_a_store_by_a_mask_that_may_be_empty_needs_no_condition():
    body = (
        "w, n = torch.zeros_like(x), 0\nfor low in (0.0, 5.0):\n    m = x > low\n"
        "    count = int(m.sum())\n    if count == 0:\n        continue\n"
        "    w[m] = 3 / count\n    n += 1\nreturn w / n"
    )
    outcome = rewritten(_function(body), X)
    assert "    w.masked_fill_(m, 3 / count.clamp(min=1))\n" in outcome.source
    assert outcome.after.default.ok and outcome.after.fullgraph.ok
    outcome.check((X * 100,))
