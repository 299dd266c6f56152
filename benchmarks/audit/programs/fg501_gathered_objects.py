"""FG501: gathered objects are copies, so writing to them must leave the argument alone."""

import torch
import torch.distributed as dist
from torch import nn


class ShardedScale(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = nn.Linear(features, features)

    def forward(self, x, settings):
        gathered = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, settings)
        for rank, found in enumerate(gathered):
            found["rank"] = rank
        dist.barrier()
        return self.proj(x) * gathered[0]["scale"], gathered


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return ShardedScale(4).eval(), (torch.randn(2, 4), {"scale": 0.5})


def witnesses():
    """Settings with a tensor, with a list that is in them twice, and without the scale."""
    names = ["a"]
    return [
        (torch.ones(1, 4), {"scale": torch.tensor(2.0)}),
        (torch.ones(1, 4), {"scale": 2, "first": names, "second": names}),
        (torch.ones(1, 4), {"shift": 1.0}),
    ]
