"""FG511: the failure is caught where the program waits, so the call must not raise it before the try."""

import torch
import torch.distributed as dist
from torch import nn


class TolerantSync(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, features)
        self.failures = 0

    def forward(self, x, mask):
        work = dist.all_reduce(mask, op=dist.ReduceOp.MAX, async_op=True)
        z = self.net(x)
        try:
            work.wait()
        except RuntimeError:
            self.failures += 1
        return z * mask


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return TolerantSync(4).eval(), (torch.randn(2, 4), torch.ones(4))


def witnesses():
    """A mask of short integers, which the backend does not reduce, and one of bytes."""
    return [
        (torch.ones(2, 4), torch.ones(4, dtype=torch.int16)),
        (torch.ones(2, 4), torch.ones(4, dtype=torch.uint8)),
    ]
