import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten, rewritten_together

pytestmark = pytest.mark.compiles

HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"
torch.manual_seed(0)
X = torch.randn(6, 4, requires_grad=True)
MASK = torch.rand(6, 4) > 0.4


def _function(body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}def f(x, m):\n{lines}"


@pytest.mark.parametrize(
    ("body", "call", "reason"),
    [
        ("i, j = torch.where(m)\nreturn x[i].sum() + j.sum()", "torch.where(m)", "needed"),
        ("i, j = torch.where(m)\nreturn x.T[j, i].sum()", "torch.where(m)", "other elements"),
        ("i = m.nonzero()\nreturn x[i].sum()", "m.nonzero()", "other elements"),
        ("i = m.nonzero(as_tuple=True)\nreturn x[i]", "m.nonzero(as_tuple=True)", "is returned"),
        (
            "i = m[0].nonzero()[:, 0]\nreturn x[:, i].sum() * i.numel() + i[-1]",
            "m[0].nonzero()",
            "",
        ),
        ("i = m[0].nonzero()[:, 0]\nreturn x.index_fill(1, i, 0.0)", "m[0].nonzero()", "needed"),
        ("i = m[0].nonzero()[:, 0]\nreturn x.index_copy(0, i, x)", "m[0].nonzero()", "needed"),
        (
            "k = m[:, 0]\ni = k.nonzero()[:, 0]\nk[0] = True\nreturn x.index_fill(0, i, 0.0)",
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
        "i, j = torch.where(m)\nreturn x[i, j].sum()",
        "return torch.where(m, x, 0).sum()",
    ),
    (
        "keep = (x > 0.5).nonzero( as_tuple=True )  # large\nz = x * 1\nz[keep] = 0\n"
        "return z + x[keep].mean()",
        "keep = x > 0.5  # large\nz = x * 1\nz[keep] = 0\n"
        "return z + torch.where(keep, x, 0).sum() / keep.sum()",
    ),
    (
        "pos = m[:, 0].nonzero().squeeze(1)\nreturn F.mse_loss(x[pos], x.detach()[pos] + 1)",
        "pos = m[:, 0]\nreturn F.mse_loss(torch.where(pos[..., None], x, 0), "
        "torch.where(pos[..., None], x.detach() + 1, 0), "
        'reduction="sum") / (pos.sum() * x.shape[-1])',
    ),
    (
        "z = x * 1\ni, j = torch.where(m)\nz[i, j] = z[i, j] * 2\nreturn z",
        "z = x * 1\nz = torch.where(m, z * 2, z)\nreturn z",
    ),
    (
        "z = x * 1\nz[(x > 0).nonzero(as_tuple=True)] = 1\nreturn z",
        "z = x * 1\nz[x > 0] = 1\nreturn z",
    ),
    (
        "i = torch.nonzero(m[:, 0])  # rows\nif i.dim() > 0:\n    x = x * 1\n"
        "    x.index_fill_(0, i.squeeze(), 0.0)\nreturn x",
        "i = m[:, 0]  # rows\nif i.dim() > 0:\n    x = x * 1\n"
        "    x.masked_fill_(i[:, None], 0.0)\nreturn x",
    ),
    (
        "i = m[:, 0].nonzero().flatten()\nreturn x[i].sum(-1).mean() + x[i].sum() / len(i)",
        "i = m[:, 0]\nreturn torch.where(i, x.sum(-1), 0).sum() / i.sum() + "
        "torch.where(i[..., None], x, 0).sum() / i.sum()",
    ),
    (
        "i, j = torch.where(m.int())\nreturn x[i, j].exp().sum()",
        "mask = m.int() != 0\nreturn torch.where(mask, torch.where(mask, x, 0).exp(), 0).sum()",
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
    body = "i = torch.where(m[0])[0]\nif i.numel() == 0:\n    return x.sum()\nreturn x[0, i].mean()"
    outcome = rewritten(_function(body.replace("x[0, i]", "x[0][i]")), X, MASK)
    assert "i = m[0]\n" in outcome.source and "i.numel()" not in outcome.source
    outcome.check((X, MASK & False))


def test_a_question_that_only_skips_an_assignment_goes():
    body = (
        "y = x * 1\nfor row in m.T:\n    i = torch.where(row[:6])[0]\n"
        "    if i.numel() == 0:\n        continue\n    y[i] = x[i] * 2\nreturn y"
    )
    outcome = rewritten(_function(body), X, MASK)
    assert outcome.source == _function(
        "y = x * 1\nfor row in m.T:\n    i = row[:6]\n"
        "    y = torch.where(i[..., None], x * 2, y)\nreturn y"
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
    body = "i = m.nonzero(as_tuple=True)\nm[0] = True\nz = x * 1\nz[i] = 0\nreturn z"
    text, _, refusals = offered(_function(body), "m.nonzero(as_tuple=True)", "nonzero", X, MASK)
    assert not text
    assert "`m[0] = True` changes the mask" in refusals[0]
