"""The small network with a collective on a statistic of the batch, in a one-process group.

    fullgraph explain examples/collectives.py:build              # all_reduce: one graph
    fullgraph explain examples/collectives.py:build_broadcast
    fullgraph explain examples/collectives.py:build_barrier
    fullgraph explain examples/collectives.py:build_object       # crashes torch 2.13
    fullgraph explain examples/collectives.py:build_ddp

`build_*` starts the gloo group itself. The work runs in a forked child, which computes its
collectives from the data of this rank alone.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

Built = tuple[nn.Module, torch.Tensor]
Collective = Callable[[torch.Tensor], object]


class Net(nn.Module):
    """Scales its features by their sum over all ranks. Input f32[n, 8]; output f32[n, 8]."""

    def __init__(self, collective: Collective) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.collective = collective

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        with torch.no_grad():
            total = x.sum()
            self.collective(total)
        return self.second(x / (1 + total))


class NoisyNet(nn.Module):
    """Two breaks, to be seen through DDP. Input f32[n, 8]; output f32[n, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        print("between")
        if x.mean() > 10:
            x = x / 10
        return self.second(x)


def all_reduce(total: torch.Tensor) -> None:
    dist.all_reduce(total)


def broadcast(total: torch.Tensor) -> None:
    dist.broadcast(total, src=0)


def barrier(total: torch.Tensor) -> None:
    dist.barrier()


def gather_objects(total: torch.Tensor) -> None:
    dist.all_gather_object([None], {"step": 1})


def start() -> None:
    """A process group of this process alone, unless there is one."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def build(collective: Collective = all_reduce) -> Built:
    """The network with `collective`, and a batch of four."""
    start()
    return Net(collective), torch.ones(4, 8)


def build_broadcast() -> Built:
    return build(broadcast)


def build_barrier() -> Built:
    return build(barrier)


def build_object() -> Built:
    return build(gather_objects)


def build_ddp() -> Built:
    """The noisy network under DDP, whose optimizer splits graphs at its buckets."""
    start()
    return nn.parallel.DistributedDataParallel(NoisyNet()), torch.ones(4, 8)
