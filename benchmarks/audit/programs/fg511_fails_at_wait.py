"""FG511: a dtype that the backend cannot reduce raises at the wait, after the network has run and printed."""

import torch
import torch.distributed as dist
from torch import nn


class SyncedEncoder(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, features)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x, counts):
        work = dist.all_reduce(counts, async_op=True)
        z = self.net(x).relu()
        self.steps += 1
        print("encoded", tuple(z.shape))
        work.wait()
        return z, counts


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return SyncedEncoder(4).eval(), (torch.randn(2, 4), torch.ones(3))


def witnesses():
    """Counts of short integers, of complex numbers, next to an input that does not fit, and transposed."""
    return [
        (torch.ones(2, 4), torch.ones(3, dtype=torch.int16)),
        (torch.ones(2, 4), torch.ones(3, dtype=torch.complex64)),
        (torch.ones(2, 3), torch.ones(3)),
        (torch.ones(2, 4), torch.ones(3, 4).T),
    ]
