import pytest
import torch

from fullgraph.compiler.observe import observe_functions
from fullgraph.diagnose.explain import explain
from fullgraph.rewrites.fix import places_to_observe, propose
from fullgraph.rewrites.rule import Applicability
from fullgraph.rewrites.source import parse_document
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = "import torch\n\n\n"
X = torch.randn(3, 2)
COUNTS = torch.tensor([1, 0, 3])


def _offers(body):
    module = imported(f"{HEAD}def f(x, n):\n    {body}\n")
    causes = explain(module.f, (X, COUNTS)).causes
    return propose(
        causes, observe_functions(lambda: module.f(X, COUNTS), places_to_observe(causes))
    )


@pytest.mark.compiles
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


@pytest.mark.compiles
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


LENGTHS = """import torch


def f(x, parts):
    counts = [len(part) for part in parts]
    BODY
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "return x.repeat_interleave(torch.tensor(counts), dim=0)",
            "return x.repeat_interleave(torch.tensor(counts), dim=0, output_size=sum(counts))",
        ),
        (
            "n = torch.as_tensor(counts)\n"
            "    return torch.repeat_interleave(x, n, dim=0) * n.max()",
            "n = torch.as_tensor(counts)\n"
            "    return torch.repeat_interleave(x, n, dim=0, output_size=sum(counts)) * n.max()",
        ),
        (
            "n = torch.tensor(counts)\n    counts.append(1)\n"
            "    return x.repeat_interleave(n, dim=0)",
            "n_list = list(counts)\n    n = torch.tensor(n_list)\n    counts.append(1)\n"
            "    return x.repeat_interleave(n, dim=0, output_size=sum(n_list))",
        ),
        (
            block("""
                return torch.repeat_interleave(
                        x,  # the rows
                        torch.tensor(counts),
                        dim=0,
                    )"""),
            block("""
                return torch.repeat_interleave(
                        x,  # the rows
                        torch.tensor(counts),
                        dim=0,
                        output_size=sum(counts),
                    )"""),
        ),
        (
            "counts = torch.tensor(counts)\n    return x.repeat_interleave(repeats=counts, dim=0)",
            "counts_list = list(counts)\n    counts = torch.tensor(counts_list)\n"
            "    return x.repeat_interleave(repeats=counts, dim=0, output_size=sum(counts_list))",
        ),
    ],
)
def test_the_sum_of_a_list(before, after):
    parts = [torch.ones(2), torch.ones(0), torch.ones(3)]
    outcome = rewritten(LENGTHS.replace("BODY", before), X, parts)
    assert outcome.source == LENGTHS.replace("BODY", after), outcome.refusals
    assert ("no repeat is negative" in str(outcome.assumes)) == ("_list" in after)
    outcome.check((X * 2, parts[::-1]), exact=True)


@pytest.mark.parametrize(
    ("counts", "safe"),
    [
        ("[len(part) for part in parts]", True),
        ("[part.shape[0] * 2 for part in parts]", True),
        ("[len(part) - 1 for part in parts]", False),
        ("[1, len(parts), *[2]]", True),
        ("[1, len(parts), 0]", True),
    ],
)
def test_a_negative_repeat_is_ruled_out(counts, safe):
    body = f"counts = {counts}\n    return x.repeat_interleave(torch.tensor(counts), dim=0)"
    source = f"{HEAD}def f(x, parts):\n    {body}\n"
    parts = [torch.ones(2), torch.ones(1), torch.ones(3)]
    outcome = rewritten(source, X, parts)
    assert outcome.applicability == [Applicability.SAFE if safe else Applicability.UNSAFE]


@pytest.mark.parametrize("rows", [1, 3])
def test_one_repeat_may_be_for_all_rows(rows):
    body = "counts = [len(parts)]\n    return x.repeat_interleave(torch.tensor(counts), dim=0)"
    source = f"{HEAD}def f(x, parts):\n    {body}\n"
    assert rewritten(source, X[:rows], [torch.ones(2), torch.ones(3)]).source == source


def test_a_repeat_that_raises_is_left_alone():
    body = (
        "n = torch.tensor(counts)\n    y = 0\n    for one in (x[:, 0], x):\n        try:\n"
        "            y = y + torch.repeat_interleave(one, n, dim=1).sum()\n"
        "        except (IndexError, RuntimeError):\n            y = y + 1\n    return x * y"
    )
    source = LENGTHS.replace("BODY", body)
    call = "torch.repeat_interleave(one, n, dim=1)"
    _, rewrites, _ = offered(source, call, "dynamic output shape", X, [X, X[:1]], rule="FG409")
    assert all(one.applicability is Applicability.DISPLAY for one in rewrites)
