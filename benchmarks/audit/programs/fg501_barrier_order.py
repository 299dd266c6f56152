"""FG501: what is printed and counted before and after a barrier keeps its order, also when a layer raises."""

import torch
import torch.distributed as dist
from torch import nn


class StagedEncoder(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(features, features) for _ in range(2))
        self.stages = 0

    def forward(self, x, stages=2):
        for layer in self.layers[:stages]:
            dist.barrier()
            self.stages += 1
            x = layer(x).relu()
            print("stage", self.stages, tuple(x.shape))
        dist.barrier()
        return x


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return StagedEncoder(4).eval(), (torch.randn(2, 4),)


def witnesses():
    """No stage at all, one stage, and features that do not fit the first layer."""
    return [(torch.ones(2, 4), 0), (torch.ones(2, 4), 1), (torch.ones(2, 3), 2)]
