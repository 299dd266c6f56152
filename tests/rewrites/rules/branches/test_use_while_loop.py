import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

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
        (
            block("""
                while x.norm() > 1:
                    x = x / 2
                    print(1)
                return x"""),
            "must not change anything",
        ),
        (
            block("""
                while x.norm() > 1:
                    x = x / 2
                    if x[0] > 9:
                        break
                return x"""),
            "within",
        ),
        (
            block("""
                while x.norm() > 1:
                    x /= 2
                return x"""),
            "in place",
        ),
        (
            block("""
                gain = 2
                while x.norm() > 1:
                    x = x / gain
                    gain *= 10
                return x"""),
            "`gain` may outgrow",
        ),
        (
            block("""
                gain = 2
                n = 0
                while x.norm() > 1 and n < 9:
                    x = x / gain
                    gain = gain**2 - 1
                    n = n * 2 + 1
                return x"""),
            "`gain` may outgrow",
        ),
        (
            block("""
                while x.norm() > 1:
                    x = x / 2
                    y = x + 1
                return y"""),
            "`y` has no value",
        ),
        (
            block("""
                while x.norm() > 1:
                    x = x / 2
                x.add_(1)
                return x"""),
            "changed in place later",
        ),
        (
            block("""
                while x.norm() > 1:
                    x = x / 2
                else:
                    x = x * 3
                return x"""),
            "`else`",
        ),
    ],
)
def test_left_alone(body, reason):
    source = _function(body)
    text, _, refusals = offered(source, "x.norm() > 1", "data-dependent branch", X * 5)
    assert not text
    assert any(reason in one for one in refusals), refusals


def test_gradients_are_left_alone():
    outcome = rewritten(
        _function(
            block("""
                while x.norm() > 1:
                    x = x / 2
                return x""")
        ),
        _leaf(X * 5),
    )
    assert not outcome.rules
    assert any("the gradients of `torch.while_loop`" in reason for reason in outcome.refusals)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                # shrink
                while  x.norm() > 1 :
                    x = x / 2
                return x"""),
            block("""
                # shrink
                (x,) = _while_loop(lambda x: x.norm() > 1, lambda x: (x / 2,), (x,))
                return x"""),
        ),
        (
            block("""
                n = 0
                while x.norm() > 1 and n < 10:
                    x = x / 2  # halve
                    n += 1
                return x"""),
            block("""
                n = 0

                def unfinished(x, n):
                    return (x.norm() > 1) & (n < 10)

                def step(x, n):
                    x = x / 2  # halve
                    n = n + 1
                    return x, n

                x, n = _while_loop(unfinished, step, (x, torch.tensor(n)))
                return x"""),
        ),
        (
            block("""
                y = x * 2
                while (y - x).abs().max().item() > 0.125:
                    y = (y + x)/2
                return y"""),
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
    body = block("""
        n = 0
        while x.norm() > 1:
            x = x / 2
            n = n + 1
        return x * n""")
    outcome = rewritten(_function(body), X * 5)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert outcome.assumes == ["a tensor may take the place of the number `n`"]
    outcome.check((X * 0.1,))


def test_a_new_tensor_may_change_after_the_loop():
    body = block("""
        y = x * 2
        while y.norm() > 1:
            y = y / 2
        y += 1
        return y * 3""")
    outcome = rewritten(_function(body), X * 5)
    assert outcome.rules == ["FG303"], outcome.refusals
    outcome.check((X * 0.1,), (X * 1e5,))
