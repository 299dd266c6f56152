import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

HEAD = "import math\n\nimport numpy as np\nimport torch\n\n\n"
CATEGORY = "NumPy scalar"
X = torch.randn(2, 3, 4)


@pytest.mark.parametrize(
    "call", ["np.prod(x.numpy())", "np.ceil(np.array([1.5]))", "np.prod(x.shape, axis=0)"]
)
def test_left_alone(call):
    text, _, refusals = offered(f"{HEAD}def f(x):\n    return {call}\n", call, CATEGORY, X)
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.reshape(int(np.prod(x.shape[:-1])), -1)", "x.reshape(math.prod(x.shape[:-1]), -1)"),
        ("x * int( np.ceil(x.shape[0] / 3) )", "x * math.ceil(x.shape[0] / 3)"),
        (
            "x * np.ceil(x.shape[0] / 3).astype(int).item()  # up",
            "x * math.ceil(x.shape[0] / 3)  # up",
        ),
        ("x * float(np.log(x.shape[-1]))", "x * math.log(x.shape[-1])"),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    return {before}\n", X.clone().requires_grad_())
    if not outcome.before.causes:  # this torch traces it
        return
    assert outcome.source.rstrip() == f"{HEAD}def f(x):\n    return {after}"
    outcome.check()


def test_unsafe_where_nothing_is_known():
    source = f"{HEAD}def f(x, n):\n    return x * np.sqrt(n)\n"
    _, (rewrite,), _ = offered(source, "np.sqrt(n)", CATEGORY)
    assert rewrite.applicability is Applicability.UNSAFE
