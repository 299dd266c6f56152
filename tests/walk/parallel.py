"""Modules under a gloo group of one process."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

os.environ.setdefault("MASTER_ADDR", "localhost")
if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.lin(x)
        print(x.shape)
        return x * 2


ddp = nn.parallel.DistributedDataParallel(Net())
fsdp = Net()
fully_shard(fsdp, mesh=dist.init_device_mesh("cpu", (1,)))
inputs = torch.ones(2, 4)
