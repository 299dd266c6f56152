import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = block("""
    import numpy as np
    import torch


""")
CATEGORY = "NumPy scalar"
X = torch.randn(3, 4)


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        ("return x[: int(np.mean(x.numpy() > 0))]", "int(np.mean(x.numpy() > 0))"),
        ("n = float(np.mean(x.numpy()))\n    return f'{n}', x", "float(np.mean(x.numpy()))"),
        (
            "n = float(np.mean(x.numpy()))\n    return x if n > 0 else -x",
            "float(np.mean(x.numpy()))",
        ),
        ("return x * float(np.array(2.0))", "float(np.array(2.0))"),
    ],
)
def test_left_alone(body, expression):
    text, _, refusals = offered(f"{HEAD}def f(x):\n    {body}\n", expression, CATEGORY, X)
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "m = float( np.mean(x.detach().cpu().numpy()) )  # mean\n    return x - m",
            "m = x.detach().mean()  # mean\n    return x - m",
        ),
        (
            "limit = np.percentile(x.detach().numpy(), 90)\n    return x.clamp(max=float(limit))",
            "limit = np.percentile(x.detach().numpy(), 90)\n"
            "    return x.clamp(max=torch.as_tensor(limit).detach())",
        ),
        (
            "return x * x.detach().numpy().max().item()",
            "return x * x.detach().max()",
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    {before}\n", X.clone().requires_grad_())
    assert outcome.source == f"{HEAD}def f(x):\n    {after}\n", outcome.refusals
    keeps_kind = "max().item()" in before
    expected = [] if keeps_kind else ["`x` is of a floating dtype in each call"]
    assert outcome.assumes == expected
    assert outcome.applicability == [Applicability.SAFE if keeps_kind else Applicability.UNSAFE]
    outcome.check()


def test_unsafe_where_it_divides():
    source = f"{HEAD}def f(x):\n    return x * (1 / float(np.sum(x.numpy())))\n"
    outcome = rewritten(source, X)
    assert "return x * (1 / x.detach().sum())\n" in outcome.source, outcome.refusals
    assert outcome.applicability == [Applicability.UNSAFE]


@pytest.mark.compiles
def test_a_compiled_number_has_no_gradient_where_the_array_had_none():
    source = f"{HEAD}def f(x, y):\n    return x + float(np.std(y.numpy()))\n"
    outcome = rewritten(source, X, X.flip(0))
    assert "x + torch.as_tensor(np.std(y.numpy())).detach()" in outcome.source
    leaf = X.clone().requires_grad_()
    compiled = torch.compile(imported(outcome.source).f, backend="eager")
    out = compiled(X.clone().requires_grad_(), leaf)
    out.sum().backward()
    assert leaf.grad is None
