"""FG201: a slice that passes the end of the queue is cut off there, and an index there raises."""

import torch
from torch import nn


class Recent(nn.Module):
    def __init__(self, width, size=8):
        super().__init__()
        self.register_buffer("queue", torch.zeros(size, width))
        self.register_buffer("fresh", torch.zeros(size))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.int64))

    def forward(self, keys):
        n = len(keys)
        ptr = int(self.pointer)
        self.fresh.mul_(0.5)
        self.fresh[ptr : ptr + n] = 1.0
        self.queue[ptr : ptr + n] = keys.mean(dim=0)
        self.pointer[0] = (ptr + n) % len(self.queue)
        return keys @ self.queue.T * self.fresh


def build():
    torch.manual_seed(0)
    return Recent(3), (torch.randn(2, 3),)


def witnesses():
    """The second call passes the end, the first one does, and no keys come."""
    torch.manual_seed(1)
    return [(torch.randn(5, 3),), (torch.randn(9, 3),), (torch.randn(0, 3),)]
