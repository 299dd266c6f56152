"""A network with a collective, in a process that has a process group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn

from fullgraph import bisect


@pytest.fixture(autouse=True)
def _group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def _relu_bug() -> Iterator[None]:
    import torch._inductor.config as config

    config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    yield
    config.cpp.inject_relu_bug_TESTING_ONLY = None


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


@pytest.mark.usefixtures("_relu_bug")
def test_eager_then_aot_eager_then_inductor_is_one_call() -> None:
    found = bisect(Net(), torch.ones(4, 8))
    outcomes = {name: end and end.failure and end.failure.kind for name, end in found.rungs.items()}
    assert outcomes == {
        "eager": None,
        "dynamo": None,
        "aot_eager": None,
        "aot_eager_decomp_partition": None,
        "inductor": "result",
    }
    assert found.culprit is not None and "relu" in found.culprit.what
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == 1


def test_a_network_that_is_right_is_refused() -> None:
    found = bisect(Net(), torch.ones(4, 8), backend="aot_eager", loss=True)
    assert found.refused == "Nothing fails: every rung gives what eager gives."


def test_a_model_in_ddp() -> None:
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
    found = bisect(model, torch.ones(4, 8), backend="aot_eager", loss=True)
    assert found.refused == "Nothing fails: every rung gives what eager gives."
