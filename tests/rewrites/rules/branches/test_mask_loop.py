import re

import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten, rewritten_together

pytestmark = pytest.mark.compiles

HEAD = "import torch\n\n\n"
CATEGORY = "data-dependent branch"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


def _leaf(x):
    return x.clone().requires_grad_()


def _function(body, *names):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}def f({', '.join(names or ('x',))}):\n{lines}"


def _masked(body):
    """Return the function with the exit that eager code keeps after each update of `done`."""
    guard = "if not torch.compiler.is_compiling() and done:"
    exit_ = rf"\1\2\n\1{guard}\n\1    break"
    return _function(re.sub(r"^( *)(done = done \|.*)$", exit_, body, flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "for _ in range(3):\n    print(1)\n    x = x * 2\n    if x.sum() > 5:\n        break\n"
            "return x",
            "no assignment",
        ),
        (
            "outs = []\nfor _ in range(3):\n    x = torch.cat((x[1:], -x[:1]))\n"
            "    outs.append(x)\n    if x.sum() > 5:\n        break\nreturn torch.stack(outs)",
            "how many elements `outs` has",
        ),
        (
            "for i in (1, 2):\n    x = x * 2\n    if x.sum() > 5:\n        break\nreturn x * i",
            "`i` is used after the loop",
        ),
        (
            "for _ in range(3):\n    x = x * 2\n    if x.sum() > 5:\n        y = -x\n        break"
            "\nelse:\n    y = x\nreturn y",
            "`else`",
        ),
        (
            "for i in range(3):\n    x = x * 2\n    if x.sum() > 5:\n        return x * i\n"
            "return x",
            "the loop's variables",
        ),
        (
            "for i in range(3):\n    x = x * 2\n    if x.sum() > 5:\n        return x\nprint(x)",
            "does not return a value",
        ),
        (
            "for _ in range(3):\n    x = x * 2\n    if x.sum() > 5:\n        break\nelse:\n"
            "    x = x - 1\nreturn x",
            "`else`",
        ),
        ("while True:\n    x = x * 2\n    if x.sum() > 5:\n        break\nreturn x", "may not end"),
        (
            "for _ in range(3):\n    with memoryview(b''):\n        x = x * 2\n"
            "    if x.sum() > 5:\n        break\nreturn x",
            "other blocks",
        ),
        (
            "for _ in range(3):\n    x = torch.cat((x, x[-1:] * 2))\n    if x.sum() > 5:\n"
            "        break\nreturn x",
            "`x` grows in each iteration",
        ),
        (
            "for i in range(3):\n    x = x * 2\n    if i > 1 or x.sum() > 5:\n        break\n"
            "return x",
            "Python alone",
        ),
    ],
)
def test_left_alone(body, reason):
    source = _function(body)
    text, _, refusals = offered(source, "x.sum() > 5", CATEGORY, X)
    assert not text
    assert any(reason in one for one in refusals), refusals


FIXED = [
    (
        "# grow\nfor _ in  range(5):\n    x = x*2\n    if x.sum() > 10:  # far enough\n"
        "        break\nreturn x",
        "# grow\ndone = torch.zeros((), dtype=torch.bool, device=x.device)\n"
        "for _ in  range(5):\n    x = torch.where(done, x, x*2)\n    # far enough\n"
        "    done = done | (x.sum() > 10)\nreturn x",
    ),
    (
        "for i in range(4):\n    y = x * 0.5  # half\n    if not (y - x).abs().max() > 0.125:\n"
        "        break\n    x = y\nreturn x",
        None,
    ),
    (
        "y = torch.zeros_like(x)\nfor i in range(3):\n    y += x / (i + 1)\n"
        "    if y.max().item() > 1:\n        break\nreturn y",
        None,
    ),
    (
        "for i in range(6):\n    x = x * 2\n    if i > 1 and x.sum() > 10:\n        break\n"
        "return x",
        "done = torch.zeros((), dtype=torch.bool, device=x.device)\n"
        "for i in range(6):\n    x = torch.where(done, x, x * 2)\n    if i > 1:\n"
        "        done = done | (x.sum() > 10)\nreturn x",
    ),
    (
        "for i in range(4):\n    x = x * 2\n    far = x.sum() / x.numel()\n    if far > 1:\n"
        "        break\nreturn x",
        "done = torch.zeros((), dtype=torch.bool, device=x.device)\nfor i in range(4):\n"
        "    x = torch.where(done, x, x * 2)\n    far = x.sum() / x.numel()\n"
        "    done = done | (far > 1)\nreturn x",
    ),
    (
        "y = x\nfor i in range(4):\n    x = x * 2\n    if i and x.sum() > 5:\n"
        "        y = -x\n        break\nreturn x + y",
        None,
    ),
    (
        "y = x\nfor _ in range(3):\n    x = x * 2\n    if x.sum() > 5:\n"
        "        y = -x  # turned\n        break\nreturn x + y",
        "y = x\ndone = torch.zeros((), dtype=torch.bool, device=x.device)\n"
        "for _ in range(3):\n    x = torch.where(done, x, x * 2)\n    # turned\n"
        "    leaving = ~done & (x.sum() > 5)\n    y = torch.where(leaving, -x, y)\n"
        "    done = done | leaving\nreturn x + y",
    ),
    (
        "for i in range(4):\n    with torch.no_grad():\n        far = x.sum()\n    if i > 1:\n"
        "        x = x * 2\n    else:\n        x = x + 1\n    if far > 3:\n        break\nreturn x",
        "done = torch.zeros((), dtype=torch.bool, device=x.device)\nfor i in range(4):\n"
        "    with torch.no_grad():\n        far = x.sum()\n    if i > 1:\n"
        "        x = torch.where(done, x, x * 2)\n    else:\n"
        "        x = torch.where(done, x, x + 1)\n    done = done | (far > 3)\nreturn x",
    ),
]


def test_fixed():
    sources = [_function(before) for before, _ in FIXED]
    outcomes = rewritten_together(sources, [(_leaf(X),)] * len(FIXED))
    for outcome, (_, after) in zip(outcomes, FIXED, strict=True):
        assert after is None or outcome.source == _masked(after)
        assert outcome.rules == ["FG304"] * len(FIXED)
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((_leaf(X * 0.01),), (_leaf(X * 100),))


def test_unsafe_where_a_counter_becomes_a_tensor():
    body = (
        "n = 0\nfor _ in range(5):\n    x = x * 2\n    n = n + 1\n"
        "    if x.norm() > 10:\n        break\nreturn x * n"
    )
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.applicability == [Applicability.UNSAFE]
    assert outcome.assumes == ["a tensor may take the place of `n` and `n + 1`"]
    outcome.check((_leaf(X * 0.01),))


SOLVES = """\
    y, r, reached = x * 0, x, False
    for i in range(6):
        step = r * 0.5
        y = y + step
        r = r - step
        if i > 1 and r.norm() < 0.2:
            reached = True
            break
        r = r * 1.1
    return torch.where(torch.as_tensor(reached), y, -y)
"""


def test_the_flag_of_the_program_is_used_and_what_is_not_read_later_is_not_masked():
    outcome = rewritten(f"{HEAD}def f(x):\n{SOLVES}", X)
    body = (
        "y, r = x * 0, x\nreached = torch.zeros((), dtype=torch.bool, device=r.device)\n"
        "for i in range(6):\n    step = r * 0.5\n    y = torch.where(reached, y, y + step)\n"
        "    r = r - step\n    if i > 1:\n        reached = reached | (r.norm() < 0.2)\n"
        "        if not torch.compiler.is_compiling() and reached:\n            break\n"
        "    r = r * 1.1\nreturn torch.where(torch.as_tensor(reached), y, -y)"
    )
    assert outcome.source == _function(body)
    assert outcome.assumes == ["a tensor may take the place of `reached`"]
    outcome.check((X * 0.01,), (X * 100,))
    text, _, _ = offered(f"{HEAD}def f(x):\n{SOLVES}", "r.norm() < 0.2", CATEGORY, _leaf(X))
    assert "r = torch.where(reached, r, r - step)" in text  # it may reach a gradient


def test_the_iteration_of_the_exit_is_used_after_the_loop_and_numbers_are_compared():
    body = (
        "y = x * 0\nfor k in range(5):\n    new = torch.tanh(0.3 * y + x)\n"
        "    change = (new - y).norm().item() / (1e-5 + new.norm().item())\n    y = new\n"
        "    if change < 0.05:\n        break\nreturn y * k"
    )
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.source == _masked(
        "y = x * 0\ndone = torch.zeros((), dtype=torch.bool, device=x.device)\nlast_k = 0\n"
        "for k in range(5):\n    last_k = torch.where(done, last_k, k)\n"
        "    new = torch.tanh(0.3 * y + x)\n"
        "    change = (new - y).norm().double() / (1e-5 + new.norm().double())\n"
        "    y = torch.where(done, y, new)\n    done = done | (change < 0.05)\nk = last_k\n"
        "return y * k"
    )
    assert outcome.assumes == [
        "`1e-5 + new.norm().item()` is not zero, for otherwise Python raises",
        "a tensor may take the place of `k` after the loop",
    ]
    outcome.check((_leaf(X * 0.01),), (_leaf(X * 3),))


def test_a_return_from_the_loop_and_a_name_that_only_the_loop_sets():
    body = (
        "for w in (1.0, 2.0, 3.0):\n    y = x.sin() * w\n    if y.max() > 1.5:\n        return y\n"
        "return y"
    )
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.source == _masked(
        "done = torch.zeros((), dtype=torch.bool, device=x.device)\ny = None\n"
        "for w in (1.0, 2.0, 3.0):\n    new_y = x.sin() * w\n"
        "    y = new_y if y is None else torch.where(done, y, new_y)\n"
        "    done = done | (y.max() > 1.5)\nreturn y"
    )
    assert outcome.assumes == ["the loop that sets `y` runs at least once"]
    outcome.check((_leaf(X * 0),), (_leaf(X * 2),))


def test_what_is_returned_early_is_kept_where_its_names_change():
    body = (
        "for _ in range(3):\n    x = x * 2\n    if x.sum() > 5:\n        return x * 3\n"
        "x = x / 4\nreturn x - 1"
    )
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.source.endswith(
        "    early = x * 3\n    x = x / 4\n    return torch.where(done, early, x - 1)\n"
    )
    outcome.check((_leaf(X * 0.01),), (_leaf(X * 100),))
