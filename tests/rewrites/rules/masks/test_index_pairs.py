import pytest
import torch

from tests.rewrites.harness import offered, rewritten

HEAD = "import torch\n\n\n"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("torch.combinations(x, 3)", "only pairs"),
        ("torch.combinations(x, r=1)", "only pairs"),
        ("torch.combinations(x + 1)", "computed twice"),
        ("torch.combinations(x, with_replacement=len(x) > 2)", "no literal"),
    ],
)
def test_left_alone(expression, reason):
    source = f"{HEAD}def f(x):\n    return {expression}\n"
    text, _, refusals = offered(source, expression, "dynamic output shape", X, rule="FG411")
    assert not text
    assert any(reason in one for one in refusals)


def test_left_alone_where_nothing_is_known():
    source = f"{HEAD}def f(x):\n    return torch.combinations(x)\n"
    call = "torch.combinations(x)"
    text, _, (reason,) = offered(source, call, "dynamic output shape", rule="FG411")
    assert not text
    assert "not known" in reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "i, j = torch.combinations( x ).T  # pairs\n    return i * j",
            "i, j = x[torch.triu_indices(len(x), len(x), 1, device=x.device).T].T  # pairs\n"
            "    return i * j",
        ),
        (
            "return torch.combinations(x, 2, True).sum(1)",
            "return x[torch.triu_indices(len(x), len(x), device=x.device).T].sum(1)",
        ),
        (
            "return torch.combinations(x, r=2, with_replacement=False)",
            "return x[torch.triu_indices(len(x), len(x), 1, device=x.device).T]",
        ),
    ],
)
def test_fixed(before, after):
    source = f"{HEAD}def f(x):\n    {before}\n"
    outcome = rewritten(source, X.clone().requires_grad_())
    assert outcome.source == f"{HEAD}def f(x):\n    {after}\n"
    assert outcome.rules == ["FG411"]
    assert outcome.assumes == [
        "`x` is a tensor of one dimension in each call",
        "no gradient of `x` is computed in half precision",
    ]
    outcome.check((torch.rand(7, requires_grad=True),), (torch.rand(1),), (torch.rand(0),))
