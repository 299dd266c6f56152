import pytest
import torch

from tests.rewrites.harness import offered
from tests.text import block

X = torch.tensor([0.9, -0.2, 0.7, 0.1])
TEST = "x.sum() > 0"


def _function(body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"import torch\n\n\ndef f(x):\n{lines}"


def _edited(body):
    text, _, why = offered(_function(body), TEST, "data-dependent branch", X, rule="FG306")
    return text, why


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            block("""
                if x.sum() > 0:
                    x = torch.dropout(x, 0.5, True)
                return x"""),
            "by itself",
        ),
        (
            block("""
                if x.sum() > 0:
                    x = x.clone().normal_()
                return x"""),
            "",
        ),
        (
            block("""
                if x.sum() > 0:
                    x = [torch.randn(4) for _ in range(2)][0]
                return x"""),
            "part of a branch",
        ),
        (
            block("""
                if x.sum() > 0:
                    x = x * 2
                return x"""),
            "",
        ),
    ],
)
def test_left_alone(body, reason):
    text, refusals = _edited(body)
    assert not text
    assert any(reason in one for one in refusals) or not reason, refusals


def test_the_shorter_edit_draws_always():
    source = _function(
        block("""
            if x.sum() > 0:
                noise = torch.randn_like(x)
                return x + 2 * noise
            return x""")
    )
    category = "data-dependent branch"
    text, (made,), _ = offered(source, TEST, category, X, rule="FG306", shorter=True)
    assert text == _function(
        block("""
            noise = torch.randn_like(x)
            return torch.where(x.sum() > 0, x + 2 * noise, x)""")
    )
    assert made.assumes[-1] == "random numbers may be drawn that nothing uses"
    assert "randomness" in made.exempts


NOISE = "_cond(x.sum() > 0, torch.randn_like, torch.zeros_like, (x.detach(),))"


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                if x.sum() > 0:  # more to come
                    noise = torch.randn_like(x)
                    return x + 2 * noise
                return x"""),
            f"# more to come\nnoise = {NOISE}\nreturn torch.where(x.sum() > 0, x + 2 * noise, x)",
        ),
        (
            block("""
                z = torch.randn_like(x) if x.sum() > 0 else torch.zeros_like(x)
                return x + z"""),
            f"z = torch.where(x.sum() > 0, {NOISE}, torch.zeros_like(x))\nreturn x + z",
        ),
        (
            block("""
                if not x.sum() > 0:
                    x = x + torch.rand(4, device=x.device)
                return x * 2"""),
            "x = torch.where(x.sum() > 0, x, x + _cond(x.sum() > 0, "
            "lambda: torch.zeros(4, device=x.device), lambda: torch.rand(4, device=x.device)))\n"
            "return x * 2",
        ),
    ],
)
def test_fixed(before, after):
    source, (text, refusals) = _function(before), _edited(before)
    assert text.count("def _cond(") == 1
    assert text.endswith(_function(after).partition("\n\n\n")[2]), refusals
    for x in (X, -X):
        results = []
        for code, compiled in ((source, False), (text, False), (text, True)):
            torch._dynamo.reset()
            space = {}
            exec(code, space)
            torch.manual_seed(0)
            f = torch.compile(space["f"], backend="eager", fullgraph=True)
            leaf = x.clone().requires_grad_()
            out = (f if compiled else space["f"])(leaf)
            out.sum().backward()
            results.append([out.tolist(), leaf.grad.tolist(), torch.rand(3).tolist()])
        assert results[0] == results[1] == results[2]
