import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import contextlib
    import threading

    import torch

    LOCK = threading.Lock()
    OPEN = open


""")
X = torch.randn(4)


@pytest.mark.parametrize(
    "context",
    ["LOCK as held", "LOCK, torch.no_grad()", "torch.no_grad()", "contextlib.suppress(ValueError)"],
)
def test_left_alone(context):
    source = f"{HEAD}def f(x):\n    with {context}:\n        return x + 1\n"
    first = context.partition(" as")[0].partition(",")[0]
    place = f"with {first}".removeprefix("with ")
    text, _, _ = offered(source.replace("LOCK =", "LOCK  ="), place, "context manager", X)
    assert not text


@pytest.mark.parametrize(
    "context",
    ["LOCK", "torch.autograd.detect_anomaly()", "torch.backends.cudnn.flags(enabled=False)"],
)
def test_unsafe(context):
    source = f"{HEAD}def f(x):\n    with {context}:  # alone\n        return x + 1\n"
    outcome = rewritten(source, X)
    guarded = f"contextlib.nullcontext() if torch.compiler.is_compiling() else {context}"
    assert f"    with {guarded}:  # alone\n" in outcome.source, outcome.refusals
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)
