"""FG511: on an early return nobody waits, so the failure of the collective stays unseen."""

import torch
import torch.distributed as dist
from torch import nn


class GatedSync(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, features)

    def forward(self, x, votes):
        work = dist.all_reduce(votes, async_op=True)
        z = self.net(x)
        if z.shape[0] == 0:
            return z
        work.wait()
        return z * votes.sum()


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return GatedSync(4).eval(), (torch.randn(2, 4), torch.ones(2))


def witnesses():
    """An empty batch with votes that can be reduced, and with votes that cannot."""
    return [
        (torch.ones(0, 4), torch.ones(2)),
        (torch.ones(0, 4), torch.ones(2, dtype=torch.int16)),
        (torch.ones(2, 4), torch.ones(2, dtype=torch.int16)),
    ]
