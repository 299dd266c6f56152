"""FG801: the copy of an expanded tensor is expanded as well, and cannot be written to."""

import copy

import torch
from torch import nn


class Rollout(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.register_buffer("drift", torch.linspace(0.1, 0.4, width))

    def forward(self, x, steps=2):
        start = copy.deepcopy(x)
        for _ in range(steps):
            x = torch.tanh(x + self.drift)
        start.mul_(0.5)
        return x - start, start.is_contiguous(), start.stride()


def build():
    torch.manual_seed(0)
    return Rollout(), (torch.randn(3, 4),)


def witnesses():
    """Expanded, transposed, every second row, without a dimension, and empty."""
    torch.manual_seed(1)
    return [
        (torch.randn(1, 4).expand(3, 4),),
        (torch.randn(4, 4).t(),),
        (torch.randn(6, 4)[::2],),
        (torch.randn(4, 6)[:, 1:5],),
        (torch.randn(0, 4),),
    ]
