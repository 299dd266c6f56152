"""FG512: the tensor that is broadcast was saved for the backward pass, which a copy into it may spoil."""

import torch
import torch.distributed as dist
from torch import nn


class PrototypeHead(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("prototypes", torch.randn(5, features))

    def forward(self, queries):
        logits = queries @ self.prototypes.T
        dist.broadcast(self.prototypes, src=0)
        return logits.log_softmax(-1)


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return PrototypeHead(4), (torch.randn(2, 4),)


def witnesses():
    """Queries that ask for a gradient: their backward pass reads the prototypes."""
    return [(torch.ones(2, 4, requires_grad=True),), (torch.ones(1, 4).requires_grad_(),)]
