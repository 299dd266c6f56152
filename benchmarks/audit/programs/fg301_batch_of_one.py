"""FG301: the gate of a batch of one is a bool, and one of more rows raises."""

import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 1)

    def forward(self, x):
        score = self.gate(x).squeeze(-1).sigmoid()
        if score > 0.5:
            y = x * 2
        else:
            y = x - 1
        return y.tanh()


def build():
    torch.manual_seed(0)
    return Gated(4).eval(), (torch.randn(1, 4),)


def witnesses():
    """Two rows, as many rows as columns, no rows, and one row without a batch."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4),), (torch.randn(4, 4),), (torch.randn(0, 4),), (torch.randn(4),)]
