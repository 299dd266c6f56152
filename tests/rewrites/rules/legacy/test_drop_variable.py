import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

HEAD = "import torch\nfrom torch.autograd import Variable\n\n\n"
CATEGORY = "legacy Variable"
X = torch.randn(4, requires_grad=True)


@pytest.mark.parametrize(
    "expression",
    ["Variable(x, requires_grad=True)", "Variable(x, volatile=True)", "Variable(*[x])"],
)
def test_left_alone(expression):
    text, _, refusals = offered(f"{HEAD}def f(x):\n    return {expression}\n", expression, CATEGORY)
    assert not text and refusals


def test_another_function_of_that_name_is_not_its_business():
    source = "def Variable(x):\n    return x\n\n\ndef f(x):\n    return Variable(x)\n"
    assert offered(source, "Variable(x)\n".strip(), CATEGORY, X)[1:] == ([], [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x * Variable(torch.ones(4))  # ones", "x * torch.ones(4)  # ones"),
        ("x * Variable( torch.ones(4) , requires_grad = False )", "x * torch.ones(4)"),
        ("x * Variable(torch.ones(4) + 1)", "x * (torch.ones(4) + 1)"),
        ("Variable(x + x, requires_grad=False) * x", "(x + x).detach() * x"),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    return {before}\n", X)
    assert outcome.source == f"{HEAD}def f(x):\n    return {after}\n"
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)


def test_unsafe_where_nothing_is_known():
    source = f"{HEAD}def f(x):\n    return Variable(x, requires_grad=False)\n"
    _, (rewrite,), _ = offered(source, "Variable(x, requires_grad=False)", CATEGORY)
    assert rewrite.applicability is Applicability.UNSAFE
