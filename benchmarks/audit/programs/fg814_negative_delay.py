"""FG814: a delay that is negative, or no number, is an error in front of the update."""

import time

import torch
from torch import nn


class Throttle(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.updates = 0

    def forward(self, x, delay=0.0):
        h = self.net(x)
        time.sleep(delay)
        self.updates += 1
        return h * self.updates


def build():
    torch.manual_seed(0)
    return Throttle().eval(), (torch.randn(2, 4),)


def witnesses():
    """Negative, not a number, a string, and a tensor."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    delays = (-1.0, float("nan"), "0", None, torch.tensor(0.0), 1e-4)
    return [(x, delay) for delay in delays]
