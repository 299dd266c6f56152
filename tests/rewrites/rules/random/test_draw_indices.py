import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

pytestmark = pytest.mark.compiles

HEAD = "import random\n\nimport numpy as np\nimport torch\n\n\n"
X = torch.randn(2, 16)


def _function(body):
    return "def f(x):\n" + "".join(f"    {line}\n" for line in body.split("\n"))


@pytest.mark.parametrize(
    ("before", "drawn", "after"),
    [
        (
            "m = torch.zeros(2, 16, dtype=torch.bool)\nk = 5\nfor i in range(len(x)):\n"
            "    ids = random.sample(range(x.shape[1]), k)\n    m[i, ids] = True\n"
            "return torch.where(m, x, 0)",
            ("n: int, k: int", "random.sample(range(n), k)", "k"),
            "m = torch.zeros(2, 16, dtype=torch.bool)\nk = 5\nfor i in range(len(x)):\n"
            "    ids = _draw_ids(x.shape[1], k)\n    m[i, ids] = True\n"
            "return torch.where(m, x, 0)",
        ),
        (
            "return x[:, np.random.permutation(16)]",
            ("", "np.random.permutation(16)", "16"),
            "return x[:, _draw_permutation()]",
        ),
        (
            "keep = torch.from_numpy(np.random.permutation(x.size(1))[:4]).to(x.device)\n"
            "return x[:, keep]",
            ("n: int", "np.random.permutation(n)", "n"),
            "keep = _draw_permutation(x.size(1))[:4].to(x.device)\nreturn x[:, keep]",
        ),
        (
            "ids = np.random.choice(16, 5, replace=False)\n"
            "keep = torch.as_tensor(ids, dtype=torch.int32)\nreturn x[:, keep] * len(ids)",
            ("", "np.random.choice(16, 5, replace=False)", "5"),
            "ids = _draw_ids()\nkeep = ids.to(dtype=torch.int32)\nreturn x[:, keep] * len(ids)",
        ),
    ],
)
def test_fixed(before, drawn, after):
    outcome = rewritten(f"{HEAD}{_function(before)}", X)
    parameters, call, count = drawn
    assert (
        f"({parameters}) -> torch.Tensor:\n    return torch.tensor({call}, dtype=torch.int64)\n"
    ) in outcome.source
    assert f": torch.empty(({count},), dtype=torch.int64))\n" in outcome.source
    assert outcome.source.endswith(f"\n\n\n{_function(after)}"), outcome.refusals
    assert outcome.rules == ["FG703"] and outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("return x[:, sorted(random.sample(range(16), 5))]", "random.sample(range(16), 5)"),
        ("return x[:, random.sample([3, 4, 5], 2)]", "random.sample([3, 4, 5], 2)"),
        ("ids = random.sample(range(16), 2)\nreturn x * ids[0]", "random.sample(range(16), 2)"),
        (
            "ids = np.random.choice(16, 2, p=[1 / 16] * 16)\nreturn x[:, ids]",
            "np.random.choice(16, 2, p=[1 / 16] * 16)",
        ),
    ],
)
def test_left_alone(body, call):
    text, _, _ = offered(f"{HEAD}{_function(body)}", call, "random number", X, rule="FG703")
    assert not text
