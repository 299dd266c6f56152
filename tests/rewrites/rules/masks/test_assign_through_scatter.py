import pytest
import torch

from tests.rewrites.harness import offered, rewritten, rewritten_together
from tests.text import block

HEAD = "import torch\n\n\ndef f(x):\n"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])
SCATTERED = "torch.zeros_like({x}, dtype=torch.bool).scatter(0, {i}, {m})"


def _source(body):
    lines = [*body.split("\n"), "return x"]
    return HEAD + "    x = x * 1\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("body", "expression", "reason"),
    [
        (
            block("""
                i = (x > 0).long()
                x[i[i > 0]] = 2"""),
            "i[i > 0]",
            "twice",
        ),
        (
            block("""
                i = x.sort(0)[1]
                x[i[x > 0]] = x[0]"""),
            "i[x > 0]",
            "twice",
        ),
        (
            block("""
                v, i = x.sort()
                x[i[v > 0]] = x[0]"""),
            "i[v > 0]",
            "no number",
        ),
        (
            block("""
                v, i = x.sort()
                i += 1
                x[i[v < 0]] = 2"""),
            "i[v < 0]",
            "twice",
        ),
        (
            block("""
                v, i = x.sort()
                y = x.long()
                y[i[v > 0]] = 0.5"""),
            "i[v > 0]",
            "another dtype",
        ),
        (
            block("""
                v, i = x.sort()
                k = i[v > 0]
                x[k] = 2
                x = x + len(k)"""),
            "i[v > 0]",
            "",
        ),
        (
            block("""
                v, i = x.sort()
                k = i[v > 0]
                v = v + 1
                x[k] = 2"""),
            "i[v > 0]",
            "",
        ),
    ],
)
def test_left_alone(body, expression, reason):
    text, _, refusals = offered(_source(body), expression, "boolean mask", X, rule="FG412")
    assert not text
    assert any(reason in one for one in refusals) or not reason, refusals


PAIRS = [
    (
        block("""
            v, i = x.sort(descending=True)
            x[i[v > 0.5]] = float('-inf')"""),
        "v, i = x.sort(descending=True)\n"
        f"x.masked_fill_({SCATTERED.format(x='x', i='i', m='v > 0.5')}, float('-inf'))",
    ),
    (
        block("""
            i = x.argsort()
            m = x[i] > 0
            x[i[m]] = 2"""),
        "i = x.argsort()\nm = x[i] > 0\n"
        f"x.masked_fill_({SCATTERED.format(x='x', i='i', m='m')}, 2)",
    ),
    (
        block("""
            v, i = torch.topk(x, 2)
            k = i[v > 0.8]
            x[k] = 0.0"""),
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


@pytest.mark.parametrize("constant", ["-1e9", "float('-inf')", "1e4"])
def test_a_constant_that_half_precision_cannot_hold(constant):
    source = _source(f"i = x.argsort()\nm = x[i] > 0\nx[i[m]] = {constant}")
    _, (edit,), _ = offered(source, "i[m]", "boolean mask", X, rule="FG412")
    clause = "`x` is of float32 or float64 in each call"
    assert edit.assumes == ((clause,) if constant == "-1e9" else ())


def test_rows_of_a_batch():
    body = block("""
        v, i = x.sort(dim=-1)
        for n in range(len(x)):
            x[n, i[n][v[n] > 0]] = 0.0
        for n in range(len(x)):
            x[n][i[n][v[n] < -1]] = 3""")
    outcome = rewritten(_source(body), torch.randn(2, 4))
    assert "x[n].masked_fill_(torch.zeros_like(x[n], dtype=torch.bool)" in outcome.source
    assert {*outcome.rules} == {"FG412"}
    outcome.check((torch.randn(2, 4),))
