import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten, rewritten_together
from tests.text import block

HEAD = block("""
    import math

    import numpy as np
    import torch


""")
CATEGORY = "NumPy scalar"
X = torch.randn(2, 3, 4)


@pytest.mark.parametrize(
    "call", ["np.prod(x.numpy())", "np.ceil(np.array([1.5]))", "np.prod(x.shape, axis=0)"]
)
def test_left_alone(call):
    text, _, refusals = offered(f"{HEAD}def f(x):\n    return {call}\n", call, CATEGORY, X)
    assert not text and refusals


FIXED = [
    ("x.reshape(int(np.prod(x.shape[:-1])), -1)", "x.reshape(math.prod(x.shape[:-1]), -1)"),
    ("x * int( np.ceil(x.shape[0] / 3) )", "x * math.ceil(x.shape[0] / 3)"),
    (
        "x * np.ceil(x.shape[0] / 3).astype(int).item()  # up",
        "x * math.ceil(x.shape[0] / 3)  # up",
    ),
    ("x[:, : np.floor(x.shape[1] * 0.5).astype(int)]", "x[:, : math.floor(x.shape[1] * 0.5)]"),
    ("x[: np.clip( x.shape[0], 1, 3 )]", "x[: min(max(x.shape[0], 1), 3)]"),
    ("x[: np.max(x.shape)]", "x[: max(x.shape)]"),
    ("x[: np.int64(x.shape[0])]", "x[: x.shape[0]]"),
    ("x[: int(np.sum([1, x.shape[0]]))]", "x[: sum([1, x.shape[0]])]"),
    (
        "x * (1 / np.sqrt(np.prod(x.shape[1:])).item())",
        "x * (1 / math.sqrt(math.prod(x.shape[1:])))",
    ),
    ("x * float(np.log(x.shape[-1]))", "x * math.log(x.shape[-1])"),
]


def test_fixed():
    sources = [f"{HEAD}def f(x):\n    return {before}\n" for before, _ in FIXED]
    outcomes = rewritten_together(sources, [(X.clone().requires_grad_(),)] * len(FIXED))
    for outcome, (before, after) in zip(outcomes, FIXED, strict=True):
        if any(
            cause.expression in before for cause in outcome.before.causes
        ):  # torch traces others
            assert outcome.source.rstrip() == f"{HEAD}def f(x):\n    return {after}"
        outcome.check()


def test_unsafe_where_nothing_is_known():
    source = f"{HEAD}def f(x, n):\n    return x * np.sqrt(n)\n"
    _, (rewrite,), _ = offered(source, "np.sqrt(n)", CATEGORY)
    assert rewrite.applicability is Applicability.UNSAFE


def test_a_named_number_changes_where_it_is_made():
    source = (
        f"{HEAD}def f(x):\n"
        "    h, w = np.array(x.shape[-2:]) * 0.5  # half\n"
        "    size = (int(np.floor(h)), int(np.ceil(w)))\n"
        "    return x[:, : size[0], : size[1]]\n"
    )
    outcome = rewritten(source, X)
    assert "    h, w = [size * 0.5 for size in x.shape[-2:]]  # half\n" in outcome.source
    assert "size = (math.floor(h), math.ceil(w))\n" in outcome.source
    assert set(outcome.applicability) == {Applicability.SAFE}
    outcome.check()


def test_a_list_of_sizes():
    source = (
        f"{HEAD}def f(x):\n"
        "    h, w = (np.ceil(np.array(x.shape[1:]) / 2)).astype(int).tolist()\n"
        "    return x[:, :h, :w]\n"
    )
    outcome = rewritten(source, X)
    assert "    h, w = [math.ceil(size / 2) for size in x.shape[1:]]\n" in outcome.source
    outcome.check()


def test_a_loop_over_arange():
    source = (
        f"{HEAD}def f(x):\n    for i in np.arange(0, x.shape[-1], 2):\n"
        "        x = x + x[..., i : i + 1]\n    return x\n"
    )
    outcome = rewritten(source, X)
    assert "for i in range(0, x.shape[-1], 2):\n" in outcome.source, outcome.refusals
    outcome.check()


def test_numbers_in_a_function_that_is_called():
    source = (
        f"{HEAD}def angles(p, d):\n"
        "    return [p / np.power(10000, 2 * (j // 2) / d) for j in range(d)]\n\n\n"
        "def f(x):\n    table = np.array([angles(i, 4) for i in range(3)])\n"
        "    return x + torch.FloatTensor(table)\n"
    )
    outcome = rewritten(source, X)
    assert "return x + torch.from_numpy(table).float()\n" in outcome.source
    assert "p / 10000 ** (2 * (j // 2) / d)" in outcome.source, outcome.refusals
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check()
