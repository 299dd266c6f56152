"""FG512: keys whose rows share their memory can be broadcast, but not be copied into."""

import torch
import torch.distributed as dist
from torch import nn


class KeyQueue(nn.Module):
    def __init__(self, features, size):
        super().__init__()
        self.proj = nn.Linear(features, features)
        self.register_buffer("queue", torch.zeros(size, features))

    def forward(self, x, keys):
        keys = keys.detach()
        dist.broadcast(keys, src=0)
        self.queue[: len(keys)] = keys
        dist.broadcast(self.queue, src=0)
        return self.proj(x) @ self.queue.T


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return KeyQueue(4, 6).eval(), (torch.randn(2, 4), torch.randn(3, 4))


def witnesses():
    """Transposed keys, one key for all rows, no key, and keys of double precision that ask for a gradient."""
    return [
        (torch.ones(2, 4), torch.arange(12.0).view(4, 3).T),
        (torch.ones(2, 4), torch.ones(1, 4).expand(3, 4)),
        (torch.ones(2, 4), torch.ones(0, 4)),
        (torch.ones(2, 4), torch.ones(3, 4, dtype=torch.float64, requires_grad=True)),
    ]
