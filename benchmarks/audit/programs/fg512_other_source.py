"""FG512: a source or a destination that is no rank of the group must raise as before."""

import torch
import torch.distributed as dist
from torch import nn


class RankedCenter(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = nn.Linear(features, features)
        self.register_buffer("center", torch.zeros(features))

    def forward(self, x, source=0):
        total = x.detach().sum(0)
        dist.reduce(total, dst=source)
        self.center.copy_(total)
        dist.broadcast(self.center, src=source)
        return self.proj(x - self.center)


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return RankedCenter(4).eval(), (torch.randn(3, 4),)


def witnesses():
    """A rank that does not exist, a negative one, and truth as a rank."""
    return [(torch.ones(3, 4), 1), (torch.ones(3, 4), -1), (torch.ones(3, 4), False)]
