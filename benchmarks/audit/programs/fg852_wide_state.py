"""FG852: the number is the state of a generator, whose products need more than 64 bits."""

import torch
from torch import nn


class Dithered(nn.Module):
    def __init__(self, width=8, seed=1):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.state = seed

    def forward(self, x, amount=1e-3):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (2**62)
        return self.net(x) + amount * (self.state / 2**62 - 0.5)


def build():
    torch.manual_seed(0)
    return Dithered().eval(), (torch.randn(2, 8),)


def witnesses():
    """The default amount, none, and one that shows the state."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x,), (x, 0.0), (x, 100.0)]
