import random

import pytest
import torch

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = block("""
    import random

    import torch


""")
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


@pytest.mark.parametrize(
    "body",
    [
        "if random.random() < 0.5:\n        print('drop')\n    return x",
        "for _ in range(3):\n        if random.random() < 0.5:\n            break\n        x += 1\n"
        "    return x",
        "while random.random() < 0.5:\n        x = x + 1\n    return x",
        "if random.random() < 0.5 and x.dim() == 1:\n        x = x + 1\n    return x",
    ],
)
def test_left_alone(body):
    text, _, refusals = offered(
        f"{HEAD}def f(x):\n    {body}\n", "random.random()", "random number", X
    )
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "if random.randrange(4) < 2:  # sometimes\n        x = x + 1\n    return x",
            None,
        ),
        (
            block("""
                # drop
                    if random.randint(0, 9) > 1:
                        y = x * 2
                    else:
                        y = x * 3
                    return y"""),
            "# drop\n    y = torch.where(torch.full((), random.randint(0, 9), "
            "dtype=torch.int64) > 1, x * 2, x * 3)\n    return y",
        ),
        (
            "if  random.randrange(4) < 2 :  # drop path\n        return x * 0\n    return x",
            "# drop path\n    return torch.where(torch.full((), random.randrange(4), "
            "dtype=torch.int64) < 2, x * 0, x)",
        ),
        (
            "if random.randrange(4) < 2:\n        x = torch.rand(4)\n    return x",
            "x = _cond(torch.full((), random.randrange(4), dtype=torch.int64) < 2, "
            "lambda: torch.rand(4), lambda: x.clone())\n    return x",
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    {before}\n", X)
    if after is not None:
        assert outcome.source.startswith(f"{HEAD}def")
        assert outcome.source.endswith(f"\n\n\ndef f(x):\n    {after}\n")
    assert outcome.rules == ["FG701"]
    assert outcome.after.default.ok and outcome.after.fullgraph.ok


@pytest.mark.compiles
def test_the_stream_and_the_value_stay():
    body = "if random.randrange(2) < 1:\n        x = x + 1\n    return x"
    source = f"{HEAD}def f(x: torch.Tensor):\n    {body}\n"
    module = imported(source)
    fixes = fix(module.f, X, inductor=False)
    assert not fixes.after.causes, fixes
    assert fixes.suggestions[0].applicability is Applicability.SAFE
    compiled = torch.compile(fixes.model, backend="eager")
    for seed in range(8):
        random.seed(seed)
        expected, state = module.f(X), random.getstate()
        random.seed(seed)
        assert torch.equal(compiled(X), expected)
        assert random.getstate() == state


def test_unsafe_where_a_gradient_of_zero_takes_the_place_of_none():
    body = "if random.random() < 2:\n        x = x * w\n    return x"
    source = f"{HEAD}def f(x, w):\n    {body}\n"
    w = torch.ones(4, requires_grad=True)
    _, (rewrite,), _ = offered(source, "random.random()", "random number", X, w)
    assert rewrite.applicability is Applicability.UNSAFE
    assert "`w` may get a gradient of zero where it got none" in rewrite.assumes


def test_a_generator_with_a_seed():
    body = (
        "source = random.Random(seed) if seed is not None else random\n"
        "    last = source.randrange(1, 3)\n    for number in range(3):\n"
        "        if number <= last:\n            x = x + number\n    return x"
    )
    outcome = rewritten(f"{HEAD}def f(x, seed):\n    {body}\n", X, 7)
    assert outcome.rules == ["FG701"]
    assert "last = torch.full((), source.randrange(1, 3), dtype=torch.int64)" in outcome.source
    outcome.check((X, 3), (X, 1))
