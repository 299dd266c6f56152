import pytest
import torch

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten

HEAD = "import math\n\nimport torch\n\n\n"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        ("return x[: x.sum().long().item()]", "x.sum().long().item()"),
        ("return x.view(int(x.sum()), -1)", "int(x.sum())"),
        ("return {x.sum().item(): x}", "x.sum().item()"),
        ("n = x.sum().item()\n    return f'{n}', x", "x.sum().item()"),
    ],
)
def test_left_alone(body, expression):
    text, _, refusals = offered(
        f"{HEAD}def f(x):\n    {body}\n", expression, "scalar extraction", torch.ones(4)
    )
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "return x / max( 1, (x > 0).sum().item() )  # at least one",
            "return x / (x > 0).sum().clamp(min=1)  # at least one",
        ),
        (
            "total = max(x.abs().sum().item(), 1.0)\n    y = x / total\n    return y * total",
            "total = x.abs().sum().detach().clamp(min=1.0)\n    y = x / total\n"
            "    return y * total",
        ),
        (
            "n = float( x.sum() )\n\n    return x * (2 * n + 1)",
            "n = x.sum().detach()\n\n    return x * (2 * n + 1)",
        ),
        ("return x * math.sqrt(x.abs().sum())", "return x * x.abs().sum().detach().sqrt()"),
        (
            "c = 0.2 * x.abs().max().item()\n    return torch.where(x <= c, x, c)",
            "c = 0.2 * x.abs().max().detach()\n    return torch.where(x <= c, x, c)",
        ),
        ("return x + int(x.sum() * 3)", "return x + (x.sum() * 3).trunc().detach()"),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    {before}\n", X.clone().requires_grad_())
    assert outcome.source == f"{HEAD}def f(x):\n    {after}\n"
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check()


def test_a_number_that_is_kept_is_unsafe_and_proved_by_value():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.stats = {}\n\n"
        "    def forward(self, x):\n        self.stats['sum'] = x.sum().item()\n"
        "        return x * 2\n"
    )
    fixes = fix(imported(source).Model(), X, inductor=False)
    assert fixes.after.causes and not fixes.after_unsafe.causes, fixes
    (suggestion,) = fixes.suggestions
    assert suggestion.applicability is Applicability.UNSAFE and suggestion.accepted
    assert "self.stats['sum'] = x.sum().detach()" in suggestion.diff


def test_dividing_a_number_is_unsafe():
    source = f"{HEAD}def f(x):\n    return x * (1 / x.sum().item())\n"
    _, (rewrite,), _ = offered(source, "x.sum().item()", "scalar extraction", X)
    assert rewrite.applicability is Applicability.UNSAFE
