"""FG851: the argument of append limits the activations in place, and the result is made of them."""

import torch
from torch import nn


class Tapped(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, 4)
        self.taps = []

    def forward(self, x):
        h = self.first(x)
        self.taps.append(h.clamp_(-3.0, 3.0).detach())
        return self.second(h)


def build():
    torch.manual_seed(0)
    return Tapped().eval(), (torch.randn(2, 8),)


def witnesses():
    """Activations above and below the limits, and within them."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x * 40,), (x * -40,), (x * 0.1,)]
