import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

HEAD = "import torch\n\n\n"
CATEGORY = "requires_grad"
X = torch.randn(4)


@pytest.mark.parametrize(
    "statement", ["m.requires_grad = True", "m.requires_grad = x.dim() == 1", "x.grad = None"]
)
def test_left_alone(statement):
    target = statement.partition(" =")[0]
    source = f"{HEAD}def f(x):\n    m = x * 2\n    {statement}\n    return m\n"
    assert not offered(source, target, CATEGORY, X)[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m.requires_grad = False  # a mask", "m = m.detach()  # a mask"),
        ("m . requires_grad=False", "m = m.detach()"),
        ("m.requires_grad_(False)", "m = m.detach()"),
    ],
)
def test_fixed(before, after):
    source = f"{HEAD}def f(x):\n    m = x * 2\n    {before}\n    return x * m\n"
    outcome = rewritten(source, X)
    if not outcome.before.causes:  # this torch traces it
        assert outcome.source == source
        return
    assert outcome.source == source.replace(before, after)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert "torch raises" in outcome.assumes[0]
    outcome.check(exact=True)


def test_a_line_that_changes_nothing_goes():
    source = (
        f"{HEAD}def f(x):\n    m = (x > 0).float()\n    m.requires_grad = False\n    return x * m\n"
    )
    outcome = rewritten(source, X)
    if outcome.before.causes:
        assert outcome.source == source.replace("    m.requires_grad = False\n", "")
        outcome.check(exact=True)


def test_a_parameter_of_the_function_is_unsafe():
    source = f"{HEAD}def f(m):\n    m.requires_grad = False\n    return m\n"
    _, (rewrite,), _ = offered(source, "m.requires_grad", CATEGORY, X)
    assert rewrite.applicability is Applicability.UNSAFE
