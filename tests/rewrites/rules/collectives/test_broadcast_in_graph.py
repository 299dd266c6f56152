import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import torch
    import torch.distributed as dist
    import torch.distributed.nn
    import torch.distributed._functional_collectives as funcol


""")
X = torch.randn(4, 2)


@pytest.fixture(autouse=True)
def group():
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "call",
    [
        "dist.broadcast(x, src=0)",
        "dist.broadcast(x * 1, 0)",
        "dist.broadcast(y, 0, async_op=True)",
        "dist.broadcast(y, 0, group=dist.new_group([0]))",
        "dist.broadcast(*[y, 0])",
    ],
)
def test_left_alone(call):
    source = f"{HEAD}def f(x):\n    y = x.detach() * 2\n    {call}\n    return y\n"
    x = X.clone().requires_grad_()
    text, _, refusals = offered(source, call, "collective", x * 1)
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after", "safe"),
    [
        (
            "dist.broadcast( y, src=0 )  # from 0",
            "y.copy_(funcol.broadcast(y, 0, dist.group.WORLD))  # from 0",
            True,
        ),
        (
            "dist.broadcast(y, 0, group=None)",
            "y.copy_(funcol.broadcast(y, 0, dist.group.WORLD))",
            True,
        ),
        ("dist.reduce(y, dst=0)", "dist.all_reduce(y)", False),
    ],
)
def test_fixed(before, after, safe):
    def source(line):
        return f"{HEAD}def f(x):\n    y = x * 2\n    {line}\n    return y + 1\n"

    outcome = rewritten(source(before), X)
    assert outcome.source == source(after), outcome.refusals
    assert (outcome.applicability == [Applicability.SAFE]) is safe
    outcome.check(exact=True)


def test_a_gather_with_its_gradient():
    source = f"{HEAD}def f(x):\n    return torch.cat(torch.distributed.nn.all_gather(x)) * 2\n"
    source = source.replace("import torch.distributed._functional_collectives as funcol\n", "")
    outcome = rewritten(source, X.clone().requires_grad_())
    assert "import torch.distributed._functional_collectives as funcol\n" in outcome.source
    assert "funcol.all_gather_tensor_autograd(x, 0, dist.group.WORLD) * 2" in outcome.source
    outcome.check(exact=True)
