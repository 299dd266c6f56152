"""FG851: a property reads the counter, and only the calls that warm up read the property."""

import torch
from torch import nn


class Warmup(nn.Module):
    def __init__(self, width=8, steps=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.steps = steps
        self.calls = 0

    @property
    def progress(self):
        return min(1.0, self.calls / self.steps)

    def forward(self, x, warm=False):
        self.calls += 1
        h = torch.relu(self.net(x))
        return h * self.progress if warm else h


def build():
    torch.manual_seed(0)
    return Warmup().eval(), (torch.randn(2, 8),)


def witnesses():
    """Warming up and not."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x, True), (x, False)]
