import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

HEAD = "import torch\n\n\n"
CATEGORY = "tensor comparison"
A, B = torch.randn(4), torch.randn(4)


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        ("return {torch.equal(a, b): a}", "torch.equal(a, b)"),
        ("same = torch.equal(a, b)\n    return f'{same}', a", "torch.equal(a, b)"),
        ("return a * torch.equal(a[1:], b)", "torch.equal(a[1:], b)"),
        ("return a * torch.equal(a, b.double())", "torch.equal(a, b.double())"),
        ("return a[: int(torch.equal(a, b))]", "torch.equal(a, b)"),
    ],
)
def test_left_alone(body, expression):
    text, _, refusals = offered(f"{HEAD}def f(a, b):\n    {body}\n", expression, CATEGORY, A, B)
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a * torch.equal(a, b)  # all", "a * (a == b).all()  # all"),
        ("a * torch.allclose( a, b, atol=1e-3 )", "a * torch.isclose( a, b, atol=1e-3 ).all()"),
        ("a + 2 * a.equal(b)", "a + 2 * (a == b).all().long()"),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(a, b):\n    return {before}\n", A.requires_grad_(), B)
    assert outcome.source == f"{HEAD}def f(a, b):\n    return {after}\n", outcome.refusals
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((A, A.detach().clone()), exact=True)


def test_unsafe_where_it_is_returned():
    source = f"{HEAD}def f(a, b):\n    return torch.equal(a, b), a * 2\n"
    outcome = rewritten(source, A, B)
    assert "return (a == b).all(), a * 2\n" in outcome.source
    assert outcome.applicability == [Applicability.UNSAFE]
