import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

pytestmark = pytest.mark.compiles

HEAD = "import torch\n\n\n"
LOOP = """\
def _while_loop(condition, body, carried):
    \"\"\"Call torch.while_loop in compiled code; in eager code, loop in Python.\"\"\"
    if torch.compiler.is_compiling():
        return torch.while_loop(condition, body, carried)
    while condition(*carried):
        carried = body(*carried)
    return carried


"""
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


def _leaf(x):
    return x.clone().requires_grad_()


def _function(body, head=HEAD):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{head}def f(x):\n{lines}"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("while x.norm() > 1:\n    x = x / 2\n    print(1)\nreturn x", "must not change anything"),
        ("while x.norm() > 1:\n    x = x / 2\n    if x[0] > 9:\n        break\nreturn x", "within"),
        ("while x.norm() > 1:\n    x /= 2\nreturn x", "in place"),
        ("while x.norm() > 1:\n    x = x / 2\n    y = x + 1\nreturn y", "`y` has no value"),
        ("while x.norm() > 1:\n    x = x / 2\nx.add_(1)\nreturn x", "changed in place later"),
        ("while x.norm() > 1:\n    x = x / 2\nelse:\n    x = x * 3\nreturn x", "`else`"),
    ],
)
def test_left_alone(body, reason):
    source = _function(body)
    text, _, refusals = offered(source, "x.norm() > 1", "data-dependent branch", X * 5)
    assert not text
    assert any(reason in one for one in refusals), refusals


def test_gradients_are_left_alone():
    outcome = rewritten(_function("while x.norm() > 1:\n    x = x / 2\nreturn x"), _leaf(X * 5))
    assert not outcome.rules
    assert any("the gradients of `torch.while_loop`" in reason for reason in outcome.refusals)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "# shrink\nwhile  x.norm() > 1 :\n    x = x / 2\nreturn x",
            "# shrink\n(x,) = _while_loop(lambda x: x.norm() > 1, lambda x: (x / 2,), (x,))\n"
            "return x",
        ),
        (
            "n = 0\nwhile x.norm() > 1 and n < 10:\n    x = x / 2  # halve\n    n += 1\nreturn x",
            "n = 0\n\ndef unfinished(x, n):\n    return (x.norm() > 1) & (n < 10)\n\n"
            "def step(x, n):\n    x = x / 2  # halve\n    n = n + 1\n    return x, n\n\n"
            "x, n = _while_loop(unfinished, step, (x, torch.tensor(n)))\nreturn x",
        ),
        (
            "y = x * 2\nwhile (y - x).abs().max().item() > 0.125:\n    y = (y + x)/2\nreturn y",
            "y = x * 2\n(y,) = _while_loop(lambda y: (y - x).abs().max() > 0.125, "
            "lambda y: ((y + x)/2,), (y,))\nreturn y",
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(_function(before), X * 5)
    assert outcome.source == _function(after, HEAD + LOOP).replace("\n    \n", "\n\n")
    assert outcome.rules == ["FG303"]
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((X * 0.1,), (X * 1e5,))


def test_unsafe_where_a_counter_is_used_later():
    body = "n = 0\nwhile x.norm() > 1:\n    x = x / 2\n    n = n + 1\nreturn x * n"
    outcome = rewritten(_function(body), X * 5)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert outcome.assumes == ["a tensor may take the place of the number `n`"]
    outcome.check((X * 0.1,))


def test_a_new_tensor_may_change_after_the_loop():
    body = "y = x * 2\nwhile y.norm() > 1:\n    y = y / 2\ny += 1\nreturn y * 3"
    outcome = rewritten(_function(body), X * 5)
    assert outcome.rules == ["FG303"], outcome.refusals
    outcome.check((X * 0.1,), (X * 1e5,))
