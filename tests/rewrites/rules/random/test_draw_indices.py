import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import random

    import numpy as np
    import torch


""")
X = torch.randn(2, 16)


def _function(body):
    return "def f(x):\n" + "".join(f"    {line}\n" for line in body.split("\n"))


@pytest.mark.parametrize(
    ("before", "drawn", "after"),
    [
        (
            block("""
                m = torch.zeros(2, 16, dtype=torch.bool)
                k = 5
                for i in range(len(x)):
                    ids = random.sample(range(x.shape[1]), k)
                    m[i, ids] = True
                return torch.where(m, x, 0)"""),
            ("n: int, k: int", "random.sample(range(n), k)", "k"),
            block("""
                m = torch.zeros(2, 16, dtype=torch.bool)
                k = 5
                for i in range(len(x)):
                    ids = _draw_ids(x.shape[1], k)
                    m[i, ids] = True
                return torch.where(m, x, 0)"""),
        ),
        (
            "return x[:, np.random.permutation(16)]",
            ("", "np.random.permutation(16)", "16"),
            "return x[:, _draw_permutation()]",
        ),
        (
            block("""
                keep = torch.from_numpy(np.random.permutation(x.size(1))[:4]).to(x.device)
                return x[:, keep]"""),
            ("n: int", "np.random.permutation(n)", "n"),
            block("""
                keep = _draw_permutation(x.size(1))[:4].to(x.device)
                return x[:, keep]"""),
        ),
        (
            block("""
                ids = np.random.choice(16, 5, replace=False)
                keep = torch.as_tensor(ids, dtype=torch.int32)
                return x[:, keep] * len(ids)"""),
            ("", "np.random.choice(16, 5, replace=False)", "5"),
            block("""
                ids = _draw_ids()
                keep = ids.to(dtype=torch.int32)
                return x[:, keep] * len(ids)"""),
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
        (
            block("""
                ids = random.sample(range(16), 2)
                return x * ids[0]"""),
            "random.sample(range(16), 2)",
        ),
        (
            block("""
                ids = np.random.choice(16, 2, p=[1 / 16] * 16)
                return x[:, ids]"""),
            "np.random.choice(16, 2, p=[1 / 16] * 16)",
        ),
    ],
)
def test_left_alone(body, call):
    text, _, _ = offered(f"{HEAD}{_function(body)}", call, "random number", X, rule="FG703")
    assert not text
