"""FG512: gathered rows are plain tensors with a gradient, and a tensor without dimensions cannot be joined."""

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import nn


class ContrastiveGather(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        z = self.scale * x
        z = torch.cat(torch.distributed.nn.all_gather(z))
        return z


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return ContrastiveGather(4), (torch.randn(3, 4),)


def witnesses():
    """No dimension, no row, a transposed input, one that asks for a gradient, and double precision."""
    return [
        (torch.tensor(2.0),),
        (torch.ones(0, 4),),
        (torch.arange(12.0).view(4, 3).T,),
        (torch.ones(3, 4, requires_grad=True),),
        (torch.ones(3, 4, dtype=torch.float64),),
    ]
