"""FG111: what is printed is changed in place right after, and printed again before an error."""

import torch
from torch import nn


class Tracker(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x, rate=0.1):
        first = x[0]
        print("scale", self.scale)
        self.scale.mul_(1 - rate).add_(x.abs().mean(0), alpha=rate)
        print("first", first)
        x.div_(self.scale)
        print("first", first, "scale", self.scale)
        return x.view(-1, 1, 3)


def build():
    torch.manual_seed(0)
    return Tracker(), (torch.randn(2, 3),)


def witnesses():
    """Other rates, an input that is no whole block of memory, and one whose view fails."""
    torch.manual_seed(1)
    return [
        (torch.randn(2, 3), 1.0),
        (torch.randn(3, 2).t(), 0.5),
        (torch.randn(4, 3)[::2], 0.0),
        (torch.randn(2, 2, 3)[:, 0], 0.1),
    ]
