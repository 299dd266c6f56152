import pytest
import torch

from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import torch
    import torch.nn.functional as F
    from torch import nn


""")
CATEGORY = "legacy argument"
X = torch.randn(4)


@pytest.mark.parametrize(
    "call",
    [
        "F.mse_loss(x, x, size_average=x.dim() == 1)",
        'F.mse_loss(x, x, reduction="sum")',
        "F.mse_loss(x, x)",
        'F.mse_loss(x, x, size_average=None, reduction="sum")',
    ],
)
def test_left_alone(call):
    assert not offered(f"{HEAD}def f(x):\n    return {call}\n", call, CATEGORY)[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nn.MSELoss(size_average=False)(x, x * 2)", 'nn.MSELoss(reduction="sum")(x, x * 2)'),
        ("F.l1_loss(x, x*2, reduce=False)  # each", 'F.l1_loss(x, x*2, reduction="none")  # each'),
        (
            "F.mse_loss(x, x + 1, size_average = True, reduce = True)",
            'F.mse_loss(x, x + 1, reduction = "mean")',
        ),
        (
            'F.l1_loss(x, x + 1, size_average=False, reduction="mean")',
            'F.l1_loss(x, x + 1, reduction="sum")',
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    return {before}\n", X.clone().requires_grad_())
    if outcome.before.causes:  # else this torch traces it
        assert outcome.source == f"{HEAD}def f(x):\n    return {after}\n"
        outcome.check(exact=True)
    else:
        text, _, _ = offered(outcome.original, before.partition("  #")[0], CATEGORY)
        assert text == f"{HEAD}def f(x):\n    return {after}\n"
