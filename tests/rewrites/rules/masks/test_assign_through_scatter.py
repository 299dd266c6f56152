import pytest
import torch

from tests.rewrites.harness import offered, rewritten, rewritten_together

pytestmark = pytest.mark.compiles

HEAD = "import torch\n\n\ndef f(x):\n"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])
SCATTERED = "torch.zeros_like({x}, dtype=torch.bool).scatter(0, {i}, {m})"


def _source(body):
    lines = [*body.split("\n"), "return x"]
    return HEAD + "    x = x * 1\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("body", "expression", "reason"),
    [
        ("i = (x > 0).long()\nx[i[i > 0]] = 2", "i[i > 0]", "twice"),
        ("i = x.sort(0)[1]\nx[i[x > 0]] = x[0]", "i[x > 0]", "twice"),
        ("v, i = x.sort()\nx[i[v > 0]] = x[0]", "i[v > 0]", "no number"),
        ("v, i = x.sort()\ni += 1\nx[i[v < 0]] = 2", "i[v < 0]", "twice"),
        ("v, i = x.sort()\ny = x.long()\ny[i[v > 0]] = 0.5", "i[v > 0]", "another dtype"),
        ("v, i = x.sort()\nk = i[v > 0]\nx[k] = 2\nx = x + len(k)", "i[v > 0]", ""),
        ("v, i = x.sort()\nk = i[v > 0]\nv = v + 1\nx[k] = 2", "i[v > 0]", ""),
    ],
)
def test_left_alone(body, expression, reason):
    text, _, refusals = offered(_source(body), expression, "boolean mask", X, rule="FG412")
    assert not text
    assert any(reason in one for one in refusals) or not reason, refusals


PAIRS = [
    (
        "v, i = x.sort(descending=True)\nx[i[v > 0.5]] = float('-inf')",
        "v, i = x.sort(descending=True)\n"
        f"x.masked_fill_({SCATTERED.format(x='x', i='i', m='v > 0.5')}, float('-inf'))",
    ),
    (
        "i = x.argsort()\nm = x[i] > 0\nx[i[m]] = 2",
        "i = x.argsort()\nm = x[i] > 0\n"
        f"x.masked_fill_({SCATTERED.format(x='x', i='i', m='m')}, 2)",
    ),
    (
        "v, i = torch.topk(x, 2)\nk = i[v > 0.8]\nx[k] = 0.0",
        "v, i = torch.topk(x, 2)\n"
        f"x.masked_fill_({SCATTERED.format(x='x', i='i', m='v > 0.8')}, 0.0)",
    ),
]


def test_fixed():
    outcomes = rewritten_together(
        [_source(before) for before, _ in PAIRS], [(X.clone(),) for _ in PAIRS]
    )
    for outcome, (_, after) in zip(outcomes, PAIRS, strict=True):
        assert outcome.source == _source(after)
        outcome.check((-X,), (X * 0,))


def test_rows_of_a_batch():
    body = (
        "v, i = x.sort(dim=-1)\nfor n in range(len(x)):\n    x[n, i[n][v[n] > 0]] = 0.0\n"
        "for n in range(len(x)):\n    x[n][i[n][v[n] < -1]] = 3"
    )
    outcome = rewritten(_source(body), torch.randn(2, 4))
    assert "x[n].masked_fill_(torch.zeros_like(x[n], dtype=torch.bool)" in outcome.source
    assert {*outcome.rules} == {"FG412"}
    outcome.check((torch.randn(2, 4),))
