import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

HEAD = "import gc\nimport time\n\nimport torch\n\n\ndef f(x):\n"


@pytest.mark.parametrize("body", ["n = gc.collect()", "gc.get_objects()", "time.time()"])
def test_left_alone(body):
    call = body.rpartition("= ")[2]
    source = f"{HEAD}    {body}\n    return x + 1\n"
    text, _, _ = offered(source, call, "skipped function", rule="FG814")
    assert not text


@pytest.mark.parametrize("call", ["gc.collect()", "time.sleep(0)"])
def test_guarded(call):
    outcome = rewritten(f"{HEAD}    {call}\n    return x + 1\n", torch.ones(3))
    guarded = f"if not torch.compiler.is_compiling():\n        {call}"
    assert outcome.source == f"{HEAD}    {guarded}\n    return x + 1\n", outcome.before
    assert outcome.rules == ["FG814"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)
