"""FG101: two blocks and the last check all fail; the first one must tell its number."""

import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, width=4, depth=3, limit=50.0):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        for block in self.blocks:
            nn.init.eye_(block.weight)
        self.limit = limit

    def forward(self, x, gain=1.0):
        for i, block in enumerate(self.blocks):
            x = block(x) * gain
            peak = x.abs().max()
            if peak > self.limit:
                raise OverflowError(f"block {i}: {peak.item():g} of {tuple(x.shape)}")
        assert torch.isfinite(x).all(), "the tower is not finite"
        return x


def build():
    torch.manual_seed(0)
    return Tower().eval(), (torch.randn(2, 4),)


def witnesses():
    """Checks 1 and 2 fail, checks 0 to 3 fail, and the last alone (NaN is above no limit)."""
    return [
        (torch.ones(2, 4), 8.0),
        (torch.full((2, 4), 1e30), 1e30),
        (torch.full((1, 4), float("nan")), 1.0),
        (torch.full((3, 4), 50.0), 1.0),
    ]
