import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten, rewritten_together

HEAD = "import torch\n\n\n"
X = torch.randn(6, 4, requires_grad=True)
MASK = torch.rand(6, 4) > 0.4
LABELS = torch.tensor([0, 3, 1, 3, 0, 2])


@pytest.mark.parametrize(
    ("expression", "call"),
    [
        ("range(len(m.nonzero()))", "m.nonzero()"),
        ("x.sum() / m.nonzero().numel()", "m.nonzero()"),
        ("[0] * torch.where(m)[0].shape[0]", "torch.where(m)"),
        ("torch.zeros(len(torch.unique(m)))", "torch.unique(m)"),
    ],
)
def test_left_alone(expression, call):
    category = "dynamic output shape" if "unique" in call else "nonzero"
    source = f"{HEAD}def f(x, m):\n    return {expression}\n"
    text, _, refusals = offered(source, call, category, X, MASK)
    assert not text
    assert refusals


FIXED = [
    (MASK, "x.sum() / torch.nonzero(m).size(0)  # mean", "x.sum() / m.sum()  # mean"),
    (MASK, "x * len( (x > 0).nonzero() )", "x * (x > 0).sum()"),
    (MASK, "torch.where(m)[0].numel() * x", "m.sum() * x"),
    (LABELS, "x / m.nonzero().shape[0]", "x / torch.count_nonzero(m)"),
    (LABELS, "x / len(torch.unique(m))", "x / ((m.sort().values.diff() != 0).sum() + 1)"),
    (
        LABELS.view(2, 3),
        "x / m.unique().numel()",
        "x / ((m.flatten().sort().values.diff() != 0).sum() + 1)",
    ),
]


def test_fixed():
    sources = [f"{HEAD}def f(x, m):\n    return {before}\n" for _, before, _ in FIXED]
    outcomes = rewritten_together(sources, [(X, m) for m, *_ in FIXED])
    for outcome, (_, _, after) in zip(outcomes, FIXED, strict=True):
        assert outcome.source == f"{HEAD}def f(x, m):\n    return {after}\n"
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check()


def test_unsafe_where_a_number_is_returned():
    outcome = rewritten(f"{HEAD}def f(m):\n    return len(m.nonzero())\n", MASK)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert outcome.after.default.ok
    assert "return m.sum()" in outcome.source
