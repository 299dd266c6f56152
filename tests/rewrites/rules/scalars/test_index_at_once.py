import pytest
import torch

from tests.rewrites.harness import offered, rewritten_together
from tests.text import block

HEAD = "import torch\n\n\ndef f(x, ids):\n"
X = torch.tensor([[0.5, -1.0, 2.0, -0.3, 1.5], [1.0, 0.2, -0.6, 0.0, -2.0]])
IDS = torch.tensor([[1, 3, 3], [4, 4, 0]])


def _source(body):
    lines = ["x = x * 1", *body.split("\n"), "return x"]
    return HEAD + "".join(f"    {line}\n" for line in lines)


PAIRS = [
    (
        block("""
            for i in range(2):
                for k in set(ids[i].tolist()):
                    if x[i, k] < 0:
                        x[i, k] *= 1.3
                    else:
                        x[i, k] /= 1.3"""),
        block("""
        for i in range(2):
            index = ids[i]
            x[i, index] = torch.where(x[i, index] < 0, x[i, index] * 1.3, x[i, index] / 1.3)"""),
    ),
    (
        block("""
            # never
            for k in ids[0].cpu().numpy():
                x[..., k] = -float('inf')"""),
        block("""
            # never
            x[..., ids[0]] = -float('inf')"""),
    ),
    (
        block("""
            counts = x[0]
            ids = ids[1]
            for k in ids.tolist():
                counts[k] += 1"""),
        block("""
        counts = x[0]
        ids = ids[1]
        counts.index_put_((ids,), torch.ones_like(ids, dtype=counts.dtype), accumulate=True)"""),
    ),
    (
        block("""
            counts = x[0]
            for k in ids[1].tolist():
                counts[k] += 0.5"""),
        "counts = x[0]\nindex = ids[1]\n"
        "counts.index_put_((index,), torch.full_like(index, 0.5, dtype=counts.dtype), "
        "accumulate=True)",
    ),
    (
        block("""
            best = x.argmax(1)
            for i, k in enumerate(best.tolist()):
                if k == 0:
                    continue
                x[i, k] = x[i, k] * 2"""),
        block("""
            best = x.argmax(1)
            rows = torch.arange(len(best), device=best.device)
            x[rows, best] = torch.where(best == 0, x[rows, best], x[rows, best] * 2)"""),
    ),
    (
        block("""
            y = x[0]
            for k in set(ids[1].tolist()):
                if k != 3 and not y[k] > 0:
                    y[k] = 0.0
                elif k == 4:
                    y[k] = -y[k]"""),
        "y = x[0]\nindex = ids[1]\ny[index] = torch.where((index != 3) & (~(y[index] > 0)), 0.0, "
        "torch.where(index == 4, -y[index], y[index]))",
    ),
]


def test_fixed():
    outcomes = rewritten_together(
        [_source(before) for before, _ in PAIRS], [(X.clone(), IDS.clone()) for _ in PAIRS]
    )
    for outcome, (_, after) in zip(outcomes, PAIRS, strict=True):
        assert "".join(outcome.source.split()) == "".join(_source(after).split())
        assert {*outcome.rules} == {"FG200"} and {*outcome.applicability} == {"unsafe"}
        outcome.check((-X, IDS.flip(0)), exact=True)


LEFT_ALONE = [
    (
        block("""
            x = x[0]
            for k in ids[0].tolist():
                x[0] = x[k]"""),
        "assigned in each iteration",
    ),
    (
        block("""
            x = x[0]
            for k in ids[0].tolist():
                x[k] = x[k - 1]"""),
        "another iteration",
    ),
    (
        block("""
            x = x[0]
            for k in ids[0].tolist():
                x[k] = x[0]"""),
        "not known to be a number",
    ),
    (
        block("""
            x = x[0]
            for k in ids[0].tolist():
                x[k] = 1 / x[k]"""),
        "may be NaN",
    ),
    (
        block("""
            x = x[0]
            for k in ids[0].tolist():
                x[k] = k"""),
        "the number itself",
    ),
    (
        block("""
            x = x[0]
            for k in ids[0].tolist():
                x[k] = torch.rand(())"""),
        "known to be a number",
    ),
    (
        block("""
            x = x[0]
            for k in ids[0].tolist():
                x[k] = x.sum().item()"""),
        "another iteration",
    ),
    (
        block("""
            for k in ids[0].tolist():
                x[0, k] = 1
                x[1, k] = 2"""),
        "several places",
    ),
    (
        block("""
            y = x * 1
            for k in ids[0].tolist():
                x[0, k] *= 2
                y[0, k] += 1"""),
        "several places",
    ),
    (
        block("""
            y = x[0] * 1
            for k in ids[0].tolist():
                x[:, k] = y[k]"""),
        "no single element",
    ),
    (
        block("""
            for k in ids[0].tolist():
                x[0, k] = 1
                y = k"""),
        None,
    ),
    (
        block("""
            ids = ids[0]
            for k in ids.tolist():
                ids[k] = 1"""),
        "what the loop goes over",
    ),
    (
        block("""
            for k in ids[0].tolist():
                x[0, k] = 1
            x = x * k"""),
        "read after the loop",
    ),
    (
        block("""
            for k in ids[0].tolist():
                x[0, k] = 1 if k else 2"""),
        "the number itself",
    ),
    (
        block("""
            for k in ids[0].tolist():
                if k:
                    x[0, k] = 1 + x[0, k]"""),
        "compare elements",
    ),
    (
        block("""
            for k in ids[0].tolist():
                if k > 1:
                    x[:, k] = 0"""),
        "no single element",
    ),
    (
        block("""
            for k in ids[0].tolist():
                if k > 1:
                    x[0, k] *= x[0, k]"""),
        "may be NaN",
    ),
    (
        block("""
            y = x.double()
            for k in ids[0].tolist():
                x[0, k] = y[0, k]"""),
        "of another dtype",
    ),
    (
        block("""
            n = x.long()
            for k in ids[0].tolist():
                n[0, k] = 0.5"""),
        "of another dtype",
    ),
    (
        block("""
            for i, k in enumerate(sorted(ids[0].tolist())):
                x[i, k] = 1"""),
        None,
    ),
    (
        block("""
            for k in ids[0].tolist():
                if k > 1:
                    if k == 2:
                        continue
                    x[0, k] = 0
                x[0, k] = 1"""),
        "followed by more",
    ),
]


@pytest.mark.parametrize(("body", "reason"), LEFT_ALONE)
def test_left_alone(body, reason):
    expression = "ids.tolist()" if "in ids." in body else "ids[0].tolist()"
    source = _source(body)
    text, _, refusals = offered(source, expression, "scalar extraction", X, IDS, rule="FG200")
    assert not text
    assert any(reason in one for one in refusals) if reason else not refusals, refusals


ON = "`ids[0]` is on the device of `x`"
TWICE = "no gradient is asked for where a number is twice in `ids[0]`"
ASSUMED = {
    block("""
        for k in ids[0].tolist():
            x[0, k] = 2.0"""): (),
    block("""
        for k in ids[0].tolist():
            x[0, k] *= 2"""): ("no number is twice in `ids[0]`",),
    block("""
        for k in set(ids[0].tolist()):
            x[0, k] *= 2"""): (
        "no two numbers in `ids[0]` are one place, as -1 and the last are",
        TWICE,
    ),
    block("""
        for k in ids[0].tolist():
            if k != 9:
                x[0, k] = 2.0"""): (
        "every number in `ids[0]` is an index of `x`",
        "no number is twice in `ids[0]`",
    ),
    block("""
        y = x * 1
        for k in ids[0].tolist():
            x[0, k] = y[0, k]"""): ("`x` and `y` share no memory", TWICE),
}


@pytest.mark.parametrize("body", ASSUMED)
def test_what_is_assumed(body):
    source = _source(body)
    _, (edit,), _ = offered(source, "ids[0].tolist()", "scalar extraction", X, IDS, rule="FG200")
    assert edit.assumes[0] == ON and {*edit.assumes[1:]} == {*ASSUMED[body]}
