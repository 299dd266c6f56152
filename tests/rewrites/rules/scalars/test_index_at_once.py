import pytest
import torch

from tests.rewrites.harness import offered, rewritten_together

pytestmark = pytest.mark.compiles

HEAD = "import torch\n\n\ndef f(x, ids):\n"
X = torch.tensor([[0.5, -1.0, 2.0, -0.3, 1.5], [1.0, 0.2, -0.6, 0.0, -2.0]])
IDS = torch.tensor([[1, 3, 3], [4, 4, 0]])


def _source(body):
    lines = ["x = x * 1", *body.split("\n"), "return x"]
    return HEAD + "".join(f"    {line}\n" for line in lines)


PAIRS = [
    (
        "for i in range(2):\n    for k in set(ids[i].tolist()):\n        if x[i, k] < 0:\n"
        "            x[i, k] *= 1.3\n        else:\n            x[i, k] /= 1.3",
        "for i in range(2):\n    index = ids[i]\n    x[i, index] = torch.where("
        "x[i, index] < 0, x[i, index] * 1.3, x[i, index] / 1.3)",
    ),
    (
        "# never\nfor k in ids[0].cpu().numpy():\n    x[..., k] = -float('inf')",
        "# never\nx[..., ids[0]] = -float('inf')",
    ),
    (
        "counts = x[0]\nids = ids[1]\nfor k in ids.tolist():\n    counts[k] += 1",
        "counts = x[0]\nids = ids[1]\n"
        "counts.index_put_((ids,), torch.ones_like(ids, dtype=counts.dtype), accumulate=True)",
    ),
    (
        "counts = x[0]\nfor k in ids[1].tolist():\n    counts[k] += 0.5",
        "counts = x[0]\nindex = ids[1]\n"
        "counts.index_put_((index,), torch.full_like(index, 0.5, dtype=counts.dtype), "
        "accumulate=True)",
    ),
    (
        "best = x.argmax(1)\nfor i, k in enumerate(best.tolist()):\n"
        "    if k == 0:\n        continue\n    x[i, k] = x[i, k] * 2",
        "best = x.argmax(1)\nrows = torch.arange(len(best), device=best.device)\n"
        "x[rows, best] = torch.where(best == 0, x[rows, best], x[rows, best] * 2)",
    ),
    (
        "y = x[0]\nfor k in set(ids[1].tolist()):\n    if k != 3 and not y[k] > 0:\n"
        "        y[k] = 0.0\n    elif k == 4:\n        y[k] = -y[k]",
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
    ("x = x[0]\nfor k in ids[0].tolist():\n    x[0] = x[k]", "assigned in each iteration"),
    ("x = x[0]\nfor k in ids[0].tolist():\n    x[k] = x[k - 1]", "another iteration"),
    ("x = x[0]\nfor k in ids[0].tolist():\n    x[k] = x[0]", "not known to be a number"),
    ("x = x[0]\nfor k in ids[0].tolist():\n    x[k] = 1 / x[k]", "may be NaN"),
    ("x = x[0]\nfor k in ids[0].tolist():\n    x[k] = k", "the number itself"),
    ("x = x[0]\nfor k in ids[0].tolist():\n    x[k] = torch.rand(())", "known to be a number"),
    ("x = x[0]\nfor k in ids[0].tolist():\n    x[k] = x.sum().item()", "another iteration"),
    ("for k in ids[0].tolist():\n    x[0, k] = 1\n    x[1, k] = 2", "several places"),
    ("y = x * 1\nfor k in ids[0].tolist():\n    x[0, k] *= 2\n    y[0, k] += 1", "several places"),
    ("y = x[0] * 1\nfor k in ids[0].tolist():\n    x[:, k] = y[k]", "no single element"),
    ("for k in ids[0].tolist():\n    x[0, k] = 1\n    y = k", None),
    ("ids = ids[0]\nfor k in ids.tolist():\n    ids[k] = 1", "what the loop goes over"),
    ("for k in ids[0].tolist():\n    x[0, k] = 1\nx = x * k", "read after the loop"),
    ("for k in ids[0].tolist():\n    x[0, k] = 1 if k else 2", "the number itself"),
    ("for k in ids[0].tolist():\n    if k:\n        x[0, k] = 1 + x[0, k]", "compare elements"),
    ("for k in ids[0].tolist():\n    if k > 1:\n        x[:, k] = 0", "no single element"),
    ("for k in ids[0].tolist():\n    if k > 1:\n        x[0, k] *= x[0, k]", "may be NaN"),
    ("y = x.double()\nfor k in ids[0].tolist():\n    x[0, k] = y[0, k]", "of another dtype"),
    ("n = x.long()\nfor k in ids[0].tolist():\n    n[0, k] = 0.5", "of another dtype"),
    (
        "for i, k in enumerate(sorted(ids[0].tolist())):\n    x[i, k] = 1",
        None,
    ),
    (
        "for k in ids[0].tolist():\n    if k > 1:\n        if k == 2:\n            continue\n"
        "        x[0, k] = 0\n    x[0, k] = 1",
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
ASSUMED = {
    "for k in ids[0].tolist():\n    x[0, k] = 2.0": (),
    "for k in ids[0].tolist():\n    x[0, k] *= 2": ("no number is twice in `ids[0]`",),
    "for k in set(ids[0].tolist()):\n    x[0, k] *= 2": (
        "no two numbers in `ids[0]` are one place, as -1 and the last are",
    ),
    "for k in ids[0].tolist():\n    if k != 9:\n        x[0, k] = 2.0": (
        "every number in `ids[0]` is an index of `x`",
        "no number is twice in `ids[0]`",
    ),
    "y = x * 1\nfor k in ids[0].tolist():\n    x[0, k] = y[0, k]": ("`x` and `y` share no memory",),
}


@pytest.mark.parametrize("body", ASSUMED)
def test_what_is_assumed(body):
    source = _source(body)
    _, (edit,), _ = offered(source, "ids[0].tolist()", "scalar extraction", X, IDS, rule="FG200")
    assert edit.assumes[0] == ON and {*edit.assumes[1:]} == {*ASSUMED[body]}
