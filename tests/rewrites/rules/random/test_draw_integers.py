import pytest
import torch
from torch.testing import assert_close

from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = "import torch\n\n\n"
X = torch.arange(6.0).view(2, 3)


@pytest.mark.parametrize(
    "draw",
    [
        "torch.empty(3).random_()",
        "torch.empty(3).random_(1, 5, generator=None)",
        "torch.empty(3).random_(to=5)",
        "torch.empty(3).random_(5, None)",
        "torch.empty(3, **{}).random_(5)",
        "torch.empty(3, requires_grad=False).random_(1, 5)",
        "torch.ones(3).random_(1, 5)",
        "x.clone().random_(1, 5)",
    ],
)
def test_left_alone(draw):
    source = f"{HEAD}def f(x):\n    return x + {draw}\n"
    _, rewrites, refusals = offered(source, draw, "tensor mutation", X, rule="FG704")
    assert not rewrites and refusals


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("draw", "fixed"),
    [
        (
            "torch.empty([], dtype=torch.int64, device=x.device).random_(1, x.shape[1])",
            "torch.randint(1, x.shape[1], [], dtype=torch.int64, device=x.device)",
        ),
        ("torch.empty(1).random_(5)", "torch.randint(5, (1,), dtype=torch.get_default_dtype())"),
        (
            "x.new_empty(len(x), 3).random_(-4, 5)",
            "torch.randint(-4, 5, (len(x), 3), dtype=x.dtype, device=x.device)",
        ),
        (
            "x.new_zeros(x.shape, dtype=torch.int32).random_(9)",
            "torch.randint(9, x.shape, dtype=torch.int32, device=x.device)",
        ),
        (
            "torch.empty(*x.shape, dtype=x.dtype).random_(9)",
            "torch.randint(9, (*x.shape,), dtype=x.dtype)",
        ),
        ("torch.empty_like(x).random_(2, 9)", "torch.randint_like(x, 2, 9)"),
    ],
)
def test_the_same_numbers_are_drawn_in_the_graph(draw, fixed):
    outcome = rewritten(f"{HEAD}def f(x):\n    return x + {draw}, torch.rand(2)\n", X)
    assert f"    return x + {fixed}, torch.rand(2)\n" in outcome.source
    assert outcome.rules == ["FG704"]
    assert outcome.assumes == ["`x` is of no subclass of Tensor"] * ("x.new_" in draw)
    assert outcome.after.default.ok and outcome.after.fullgraph.ok
    old, new = imported(outcome.original).f, imported(outcome.source).f
    results = []
    for f in (old, new, torch.compile(new, backend="aot_eager", fullgraph=True)):
        torch.manual_seed(3)
        results.append(f(X))
    assert_close(results[1], results[0], rtol=0, atol=0)
    assert_close(results[2], results[0], rtol=0, atol=0)


def test_torch_is_imported():
    source = block("""
        from torch import nn


        def f(x):
            return x + x.new_empty(3).random_(5)
    """)
    new, _, _ = offered(source, "x.new_empty(3).random_(5)", "tensor mutation", X, rule="FG704")
    assert "import torch\n" in new and imported(new).f(X).shape == X.shape
