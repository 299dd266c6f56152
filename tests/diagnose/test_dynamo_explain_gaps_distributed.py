"""Collectives and DDP, in a live process group: the work runs in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn

from fullgraph import explain

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def _group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if x.sum() > 0:
            x = x + 1
        print(end="")
        x = self.second(x)
        return x * time.time()


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(512, 512)
        self.second = nn.Linear(512, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


def all_reduced(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        total = x.sum()
        dist.all_reduce(total)
    return x / total


def broadcast(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        total = x.sum()
        dist.broadcast(total, 0)
    return x / total


def barred(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    dist.barrier()
    return x * 2


def gathered(x: torch.Tensor) -> torch.Tensor:
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    return x + 1


def test_ddp_does_not_hide_the_real_causes() -> None:
    model = nn.parallel.DistributedDataParallel(Net())
    found = explain(model, torch.ones(2, 4), unmask=False)
    own = {c.expression: c for c in found.causes if c.position.file == __file__}
    assert set(own) == {"x.sum() > 0", 'print(end="")', "time.time()"}
    assert {c.module_path for c in own.values()} == {"module"}


def test_the_pieces_ddp_cuts_a_graph_into_are_no_breaks() -> None:
    model = nn.parallel.DistributedDataParallel(Wide(), bucket_cap_mb=1)
    found = explain(model, torch.ones(2, 512), unmask=False)
    assert [graph.splits for graph in found.graphs] == [2]


def test_collectives() -> None:
    x = torch.ones(4)
    assert explain(all_reduced, x).default.ok
    for function, expression in (
        (broadcast, "dist.broadcast(total, 0)"),
        (barred, "dist.barrier()"),
    ):
        found = explain(function, x)
        assert [(c.expression, c.category) for c in found.causes] == [(expression, "collective")]


def test_an_object_collective_that_crashes_torch_is_a_crash() -> None:
    found = explain(gathered, torch.ones(4))
    assert found.crashes or "all_gather_object" in " ".join(c.expression for c in found.causes)
