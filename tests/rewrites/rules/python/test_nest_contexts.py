import pytest
import torch

from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import contextlib
    from contextlib import ExitStack

    import torch

    FLAG = True


""")
X = torch.randn(4)


@pytest.mark.parametrize(
    "body",
    [
        "y = x + 1\n        stack.enter_context(torch.no_grad())",
        "stack.callback(print)\n        y = x + 1",
        "stack.enter_context(torch.no_grad())\n        y = x + 1\n        stack.pop_all()",
    ],
)
def test_left_alone(body):
    source = f"{HEAD}def f(x):\n    with ExitStack() as stack:\n        {body}\n    return y\n"
    text, _, refusals = offered(source, "ExitStack() as stack"[:11], "context manager", X)
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("stack.enter_context( torch.no_grad() )", "torch.no_grad()"),
        (
            "stack.enter_context(torch.no_grad())\n        if FLAG:\n"
            "            stack.enter_context(torch.enable_grad())",
            "torch.no_grad(), torch.enable_grad() if FLAG else contextlib.nullcontext()",
        ),
        (
            block("""
                if FLAG is True:
                            stack.enter_context(torch.no_grad())"""),
            "torch.no_grad() if FLAG is True else contextlib.nullcontext()",
        ),
    ],
)
def test_fixed(before, after):
    old = f"with ExitStack() as stack:\n        {before}\n"
    body = "        # inside\n        y = x * 2\n    return y + x\n"
    outcome = rewritten(f"{HEAD}def f(x):\n    {old}{body}", X.clone().requires_grad_())
    assert outcome.source == f"{HEAD}def f(x):\n    with {after}:\n{body}", outcome.refusals
    outcome.check(exact=True)
