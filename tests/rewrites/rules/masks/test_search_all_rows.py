import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = "import torch\n\n\n"
X = torch.tensor([[0.1, 0.9, 0.8], [0.0, 0.2, 0.3], [0.9, 0.1, 0.6], [0.1, 0.2, 0.7]])
LOOP = """def f(x):
    rows = []
    for row in x:
        hits = (row > 0.5).nonzero()
        if len(hits) > 0:
            rows.append(hits[0, 0])
        else:
            rows.append(torch.tensor(-1))
    return torch.stack(rows)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return torch.stack(rows)", "return torch.stack(rows), row"),
        ("return torch.stack(rows)", "return torch.stack(rows + [x[0, 0].long()])"),
        ("        hits =", "        row = row * 2\n        hits ="),
        ("(row > 0.5)", "(row > x[0])"),
    ],
)
def test_the_loop_stays(old, new):
    source = HEAD + LOOP.replace(old, new)
    call = "(row > x[0]).nonzero()" if "x[0])" in new else "(row > 0.5).nonzero()"
    text, _, _ = offered(source, call, "nonzero", X)
    assert "for row in x:" in text


@pytest.mark.parametrize(
    ("loop", "after"),
    [
        (
            LOOP,
            "    hits = x > 0.5\n    return torch.where(hits.any(1), hits.int().argmax(1), -1)\n",
        ),
        (
            LOOP.replace("hits[0, 0]", "hits[-1][0]").replace("-1)", "7)"),
            "    hits = x > 0.5\n    return torch.where("
            "hits.any(1), hits.shape[-1] - 1 - hits.flip(-1).int().argmax(1), 7)\n",
        ),
        (
            block("""
                def f(x):
                    rows = []
                    # each
                    for r in x:
                        i = torch.where(0.5 < r)[0]
                        rows.append(torch.tensor(0) if i.numel() == 0 else i.min())
                    return torch.stack(rows)
            """),
            "    # each\n    i = 0.5 < x\n    return torch.where(i.any(1), i.int().argmax(1), 0)\n",
        ),
    ],
)
def test_fixed(loop, after):
    outcome = rewritten(HEAD + loop, X)
    assert outcome.source == f"{HEAD}def f(x):\n{after}"
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((torch.rand(5, 7),), (torch.zeros(2, 3),), exact=True)
