"""A network with a collective, in a process that has a process group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._inductor.config
import torch.distributed as dist
from torch import nn

from fullgraph import bisect, minify
from fullgraph.compiler.isolation import GroupSpec, group_statements

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def _group(request: pytest.FixtureRequest) -> Iterator[None]:
    """One rank on gloo, or as many as a test is parametrized with, of which nobody answers."""
    ranks = getattr(request, "param", 1)
    exec(group_statements([GroupSpec(size=ranks)]))
    yield
    dist.destroy_process_group()


@pytest.fixture
def _relu_bug() -> None:
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Net(nn.Module):
    """Scales its features by their sum over all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        with torch.no_grad():
            total = x.sum()
            dist.all_reduce(total)
        return self.second(x / (1 + total))


@pytest.mark.slow
@pytest.mark.usefixtures("_relu_bug")
def test_eager_then_aot_eager_then_inductor_is_one_call() -> None:
    with torch.no_grad():
        script = minify(Net(), torch.ones(4, 8))
    found = script.bisection
    outcomes = {name: end and end.failure and end.failure.kind for name, end in found.rungs.items()}
    assert outcomes == {
        "eager": None,
        "dynamo": None,
        "aot_eager": None,
        "aot_eager_decomp_partition": None,
        "inductor": "result",
    }
    assert found.culprit is not None and "relu" in found.culprit.what
    assert script.standalone and script.ops == 1
    total = torch.ones(1)
    dist.all_reduce(total)  # the group of this process goes on
    assert total.item() == 1


def test_a_network_that_is_right_is_refused() -> None:
    found = bisect(Net(), torch.ones(4, 8), backend="aot_eager", loss=True)
    assert found.refused.startswith("Nothing fails: every rung gives what eager gives, in ")


def test_a_model_in_ddp() -> None:
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
    found = bisect(model, torch.ones(4, 8), backend="aot_eager", loss=True)
    assert found.refused.startswith("Nothing fails: every rung gives what eager gives, in ")


@pytest.mark.real  # what a candidate gives that nobody waits for may be other numbers each time
@pytest.mark.slow
@pytest.mark.parametrize("_group", [1, 2], indirect=True)
def test_the_script_starts_a_group_of_the_same_size(_group: None) -> None:
    def gathered(x: torch.Tensor) -> torch.Tensor:
        parts = torch.zeros(dist.get_world_size() * len(x), 2)
        dist.all_gather_into_tensor(parts, x.exp())
        return parts.sum(0)

    def backend(module: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        if any("all_gather" in str(node.target) for node in module.graph.nodes):
            raise ValueError("no all_gather here")
        return module

    size = dist.get_world_size()
    found = minify(gathered, torch.ones(3, 2), backend=backend)
    assert found.bisection.first_failing == "backend" and found.ops is not None
    assert found.ops <= 2
    assert f"world_size={size}\n" in found.text
    assert ("without the other ranks (1)" in str(found)) == (size == 2)
