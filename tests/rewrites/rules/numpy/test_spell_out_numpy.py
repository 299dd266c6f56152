import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import itertools

    import numpy as np
    import torch


""")
X = torch.tensor([[0.5, -2.0, float("nan")], [1.5, 0.25, 3.0]])

UNLIKE = (
    "nobody needs NumPy's warning of an overflow or of infinities of both signs",
    "int64 will do for sums and products of unsigned integers",
)


@pytest.mark.parametrize(
    "call",
    [
        "np.interp(a, [0, 1], [1, 2])",
        "np.nansum(a * 2)",
        "np.select(a, a)",
        "np.concat([a], out=a)",
    ],
)
def test_left_alone(call):
    text, _, refusals = offered(
        f"{HEAD}def f(x):\n    a = x.numpy()\n    return {call}\n", call, "NumPy function"
    )
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "np.select([a < 0, a > 1], [a * 2, a - 1], a)  # pieces",
            "np.where(a < 0, a * 2, np.where(a > 1, a - 1, a))  # pieces",
        ),
        ("np.select([a < 0], [a])", "np.where(a < 0, a, 0)"),
        ("np.nansum(a, axis=1)", "np.sum(np.where(np.isnan(a), 0, a), axis=1)"),
        ("np.concat( [a, a] )", "np.concatenate( [a, a] )"),
        ("np.atan(a)", "np.arctan(a)"),
    ],
)
def test_fixed(before, after):
    def source(value):
        return f"{HEAD}def f(x):\n    a = x.numpy()\n    return torch.from_numpy({value}\n    )\n"

    outcome = rewritten(source(before), X)
    if not outcome.before.causes:  # this torch traces it
        return
    assert outcome.source == source(after), outcome.refusals
    warns = "nansum" in before
    assert outcome.applicability == [Applicability.UNSAFE if warns else Applicability.SAFE]
    outcome.check(exact=True)


def test_a_loop_over_indices():
    source = (
        f"{HEAD}def f(x):\n    total = 0\n    for i, j in np.ndindex(2, 2):\n"
        "        total = total + x[i, j]\n    return total\n"
    )
    outcome = rewritten(source, X)
    assert "for i, j in itertools.product(range(2), range(2)):\n" in outcome.source
    outcome.check(exact=True)


@pytest.mark.parametrize(
    "x, assumes",
    [
        (torch.arange(4), ()),
        (torch.tensor([True, False]), ()),
        (X, UNLIKE),
        (torch.arange(4, dtype=torch.uint8), UNLIKE),
    ],
)
def test_sums_of_floats_warn_and_those_of_unsigned_integers_are_signed(x, assumes):
    source = f"{HEAD}def f(x):\n    a = x.numpy()\n    return np.nansum(a)\n"
    text, (edit,), _ = offered(source, "np.nansum(a)", "NumPy function", x, rule="FG232")
    assert "np.sum(np.where(np.isnan(a), 0, a))" in text
    assert edit.assumes == assumes
