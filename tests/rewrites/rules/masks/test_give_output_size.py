import pytest
import torch

from fullgraph.compiler.observe import observe_functions
from fullgraph.diagnose.explain import explain
from fullgraph.rewrites.fix import places_to_observe, propose
from fullgraph.rewrites.rule import Applicability
from fullgraph.rewrites.source import parse_document
from tests.rewrites.harness import imported, rewritten

pytestmark = pytest.mark.compiles

HEAD = "import torch\n\n\n"
X = torch.randn(3, 2)
COUNTS = torch.tensor([1, 0, 3])


def _offers(body):
    module = imported(f"{HEAD}def f(x, n):\n    {body}\n")
    causes = explain(module.f, (X, COUNTS)).causes
    return propose(
        causes, observe_functions(lambda: module.f(X, COUNTS), places_to_observe(causes))
    )


@pytest.mark.parametrize(
    "body",
    [
        "return x.repeat_interleave(n, dim=0, output_size=4)",
        "return x.repeat_interleave(2, dim=0)",
        "return x * n.unique().numel()",
    ],
)
def test_left_alone(body):
    assert not [
        offer for one in _offers(body) for offer in one.offers if offer.rule.code == "FG409"
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "return x.repeat_interleave( n, dim=0 )  # per graph",
            "return x.repeat_interleave( n, dim=0, output_size=4 )  # per graph",
        ),
        (
            "return torch.repeat_interleave(x, n, dim=0).sum()",
            "return torch.repeat_interleave(x, n, dim=0, output_size=4).sum()",
        ),
        (
            "return torch.repeat_interleave(n) + 1",
            "return torch.repeat_interleave(n, output_size=4) + 1",
        ),
    ],
)
def test_shown(before, after):
    (one,) = _offers(before)
    (offer,) = [offer for offer in one.offers if offer.rule.code == "FG409"]
    assert offer.rewrite.applicability is Applicability.DISPLAY
    source = f"{HEAD}def f(x, n):\n    {after}\n"
    assert offer.text == source
    assert parse_document("f.py", source)
    new = explain(imported(source).f, (X, COUNTS))
    assert new.default.ok and new.fullgraph.ok
    old = f"{HEAD}def f(x, n):\n    {before}\n"
    assert torch.equal(imported(source).f(X, COUNTS), imported(old).f(X, COUNTS))


def test_never_applied():
    source = f"{HEAD}def f(x, n):\n    return x.repeat_interleave(n, dim=0)\n"
    assert rewritten(source, X, COUNTS).source == source
