"""FG852: where states are kept, the number is the key under which the next call finds them."""

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.step = 0
        self.kept = {}

    def forward(self, x, keep=False):
        self.step += 1
        h = self.net(x) / self.step
        if keep:
            h = h + self.kept.get(self.step - 1, 1.0)
            self.kept[self.step] = h.detach()
        return h


def build():
    torch.manual_seed(0)
    return Residual().eval(), (torch.randn(2, 8),)


def witnesses():
    """Kept and found again, and not kept."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x, True), (x, False)]
