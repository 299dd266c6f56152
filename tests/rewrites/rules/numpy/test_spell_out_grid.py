import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import numpy as np
    import torch


""")
X = torch.randn(3, 4)


@pytest.mark.parametrize("grid", ["np.mgrid[0:1:5j, 0:4]", "np.mgrid[0:0.5, 0:4]", "np.mgrid[2]"])
def test_left_alone(grid):
    text, _, refusals = offered(
        f"{HEAD}def f(x):\n    g = {grid}\n    return x\n", grid, "NumPy function"
    )
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ys, xs = np.mgrid[0:h, 0:w]  # rows", "ys, xs = np.indices((h, w))  # rows"),
        (
            block("""
                ys, xs = np.mgrid[:h,
                        :w]"""),
            "ys, xs = np.indices((h, w))",
        ),
        (
            "ys, xs = np.mgrid[1 : h + 1, 0 : 2 * w : 2]",
            'ys, xs = np.meshgrid(np.arange(1, h + 1), np.arange(0, 2 * w, 2), indexing="ij")',
        ),
        ("ys, xs = np.ogrid[0:h, 0:w]", "ys, xs = np.indices((h, w), sparse=True)"),
        (
            "grid = np.mgrid[1 : h + 1, 0:w]\n    ys, xs = grid[0], grid[1]",
            'grid = np.stack(np.meshgrid(np.arange(1, h + 1), np.arange(w), indexing="ij"))\n'
            "    ys, xs = grid[0], grid[1]",
        ),
    ],
)
def test_fixed(before, after):
    def source(lines):
        return (
            f"{HEAD}def f(x):\n    h, w = x.shape\n    {lines}\n"
            "    return x * torch.from_numpy(ys) + torch.from_numpy(xs)\n"
        )

    outcome = rewritten(source(before), X.clone().requires_grad_())
    assert outcome.source == source(after), outcome.refusals
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)


def test_unsafe_where_nothing_is_known():
    source = f"{HEAD}def f(x, n):\n    return np.mgrid[0:n, 0:n]\n"
    _, (rewrite,), _ = offered(source, "np.mgrid[0:n, 0:n]", "NumPy function")
    assert rewrite.applicability is Applicability.UNSAFE
