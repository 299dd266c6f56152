import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten, rewritten_together
from tests.text import block

HEAD = block("""
    import torch
    import torch.nn.functional as F


""")
torch.manual_seed(0)
X = torch.randn(6, 4, requires_grad=True)
MASK = torch.rand(6, 4) > 0.4


def _function(body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}def f(x, m):\n{lines}"


@pytest.mark.parametrize(
    ("body", "call", "reason"),
    [
        (
            block("""
                i, j = torch.where(m)
                return x[i].sum() + j.sum()"""),
            "torch.where(m)",
            "needed",
        ),
        (
            block("""
                i, j = torch.where(m)
                return x.T[j, i].sum()"""),
            "torch.where(m)",
            "other elements",
        ),
        (
            block("""
                i = m.nonzero()
                return x[i].sum()"""),
            "m.nonzero()",
            "other elements",
        ),
        (
            block("""
                i = m.nonzero(as_tuple=True)
                return x[i]"""),
            "m.nonzero(as_tuple=True)",
            "is returned",
        ),
        (
            block("""
                i = m[0].nonzero()[:, 0]
                return x[:, i].sum() * i.numel() + i[-1]"""),
            "m[0].nonzero()",
            "",
        ),
        (
            block("""
                i = m[0].nonzero()[:, 0]
                return x.index_fill(1, i, 0.0)"""),
            "m[0].nonzero()",
            "needed",
        ),
        (
            block("""
                i = m[0].nonzero()[:, 0]
                return x.index_copy(0, i, x)"""),
            "m[0].nonzero()",
            "needed",
        ),
        (
            block("""
                k = m[:, 0]
                i = k.nonzero()[:, 0]
                k[0] = True
                return x.index_fill(0, i, 0.0)"""),
            "k.nonzero()",
            "changes the mask",
        ),
    ],
)
def test_left_alone(body, call, reason):
    text, _, refusals = offered(_function(body), call, "nonzero", X, MASK)
    assert not text
    assert any(reason in one for one in refusals), refusals


FIXED = [
    (
        block("""
            i, j = torch.where(m)
            return x[i, j].sum()"""),
        "return torch.where(m, x, 0).sum()",
    ),
    (
        block("""
            keep = (x > 0.5).nonzero( as_tuple=True )  # large
            z = x * 1
            z[keep] = 0
            return z + x[keep].mean()"""),
        block("""
            keep = x > 0.5  # large
            z = x * 1
            z[keep] = 0
            return z + torch.where(keep, x, 0).sum() / keep.sum()"""),
    ),
    (
        block("""
            pos = m[:, 0].nonzero().squeeze(1)
            return F.mse_loss(x[pos], x.detach()[pos] + 1)"""),
        "pos = m[:, 0]\nreturn F.mse_loss(torch.where(pos[..., None], x, 0), "
        "torch.where(pos[..., None], x.detach() + 1, 0), "
        'reduction="sum") / (pos.sum() * x.shape[-1])',
    ),
    (
        block("""
            z = x * 1
            i, j = torch.where(m)
            z[i, j] = z[i, j] * 2
            return z"""),
        block("""
            z = x * 1
            z = torch.where(m, z * 2, z)
            return z"""),
    ),
    (
        block("""
            z = x * 1
            z[(x > 0).nonzero(as_tuple=True)] = 1
            return z"""),
        block("""
            z = x * 1
            z[x > 0] = 1
            return z"""),
    ),
    (
        block("""
            i = torch.nonzero(m[:, 0])  # rows
            if i.dim() > 0:
                x = x * 1
                x.index_fill_(0, i.squeeze(), 0.0)
            return x"""),
        block("""
            i = m[:, 0]  # rows
            if i.dim() > 0:
                x = x * 1
                x.masked_fill_(i[:, None], 0.0)
            return x"""),
    ),
    (
        block("""
            i = m[:, 0].nonzero().flatten()
            return x[i].sum(-1).mean() + x[i].sum() / len(i)"""),
        "i = m[:, 0]\nreturn torch.where(i, x.sum(-1), 0).sum() / i.sum() + "
        "torch.where(i[..., None], x, 0).sum() / i.sum()",
    ),
    (
        block("""
            i, j = torch.where(m.int())
            return x[i, j].exp().sum()"""),
        block("""
            mask = m.int() != 0
            return torch.where(mask, torch.where(mask, x, 0).exp(), 0).sum()"""),
    ),
]


def test_fixed():
    sources = [_function(before) for before, _ in FIXED]
    outcomes = rewritten_together(sources, [(X, MASK)] * len(FIXED))
    for outcome, (_, after) in zip(outcomes, FIXED, strict=True):
        assert outcome.source == _function(after)
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((X, ~MASK))


def test_whether_there_is_an_index_is_a_branch_that_other_rules_mend():
    body = block("""
        i = torch.where(m[0])[0]
        if i.numel() == 0:
            return x.sum()
        return x[0, i].mean()""")
    outcome = rewritten(_function(body.replace("x[0, i]", "x[0][i]")), X, MASK)
    assert "i = m[0]\n" in outcome.source and "i.numel()" not in outcome.source
    outcome.check((X, MASK & False))


def test_a_question_that_only_skips_an_assignment_goes():
    body = block("""
        y = x * 1
        for row in m.T:
            i = torch.where(row[:6])[0]
            if i.numel() == 0:
                continue
            y[i] = x[i] * 2
        return y""")
    outcome = rewritten(_function(body), X, MASK)
    assert outcome.source == _function(
        block("""
            y = x * 1
            for row in m.T:
                i = row[:6]
                y = torch.where(i[..., None], x * 2, y)
            return y""")
    )
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check((X, MASK & False))


def test_an_index_that_is_in_range_needs_no_mask():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.read = torch.nn.Linear(4, 4).requires_grad_(False)\n\n"
        "    def forward(self, x, m):\n        z = torch.zeros_like(x)\n"
        "        i = m[:, 0].nonzero().flatten()\n        at = x[i].sum(1).long() % x.shape[0]\n"
        "        z[i] = self.read(x[at])\n        return z\n"
    )
    outcome = rewritten(source, X.detach() * 9, MASK)
    assert (
        "        i = m[:, 0]\n        if torch.compiler.is_compiling():\n"
        "            at = x.sum(1).long() % x.shape[0]\n"
        "            z = torch.where(i[..., None], self.read(x[at]), z)\n"
        "        else:\n            at = x[i].sum(1).long() % x.shape[0]\n"
        "            z[i] = self.read(x[at])\n"
    ) in outcome.source
    outcome.check((X.detach(), ~MASK), (X.detach(), MASK & False))


def test_a_layer_that_is_skipped_without_an_index_stays_skipped_in_eager_code():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.read = torch.nn.Linear(4, 4)\n\n"
        "    def forward(self, x, m):\n        z = torch.zeros_like(x)\n"
        "        for row in m.T:\n            i = (row > 0).nonzero().flatten()\n"
        "            if len(i) == 0:\n                continue\n"
        "            z[i] = self.read(x[i])\n        return z\n"
    )
    outcome = rewritten(source, X, MASK)
    assert (
        "            i = row > 0\n            if torch.compiler.is_compiling():\n"
        "                z = torch.where("
        "i[..., None], self.read(torch.where(i[..., None], x, 0)), z)\n"
        "            elif i.any():\n                z[i] = self.read(x[i])\n"
    ) in outcome.source
    outcome.check((X, ~MASK))


def test_unsafe_where_nothing_must_not_be_selected():
    outcome = rewritten(_function("return x[torch.where(m)].max()"), X, MASK)
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check()


def test_a_mask_that_changes_meanwhile():
    body = block("""
        i = m.nonzero(as_tuple=True)
        m[0] = True
        z = x * 1
        z[i] = 0
        return z""")
    text, _, refusals = offered(_function(body), "m.nonzero(as_tuple=True)", "nonzero", X, MASK)
    assert not text
    assert "`m[0] = True` changes the mask" in refusals[0]
