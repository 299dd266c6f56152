"""FG304: after an exit the blocks that are left over in the iterator take the short path."""

import torch
from torch import nn


class EarlyExit(nn.Module):
    def __init__(self, width, depth, limit=50.0):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.limit = limit

    def forward(self, x):
        blocks = iter(self.blocks)
        for block in blocks:
            x = torch.tanh(block(x)) + x
            if x.norm() > self.limit:
                break
        for block in blocks:
            x = x + block.bias
        return x


def build():
    torch.manual_seed(0)
    return EarlyExit(4, 3).eval(), (torch.randn(2, 4),)


def witnesses():
    """An exit after the first block, exits at several depths, and NaN."""
    near = [(torch.full((2, 4), value),) for value in (-18.0, -17.5, -17.0, 17.0, 17.5, 18.0)]
    return [(torch.full((2, 4), 90.0),), *near, (torch.full((2, 4), float("nan")),)]
