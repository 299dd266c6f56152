"""FG116: the time of the start tells later code whether this is the first call."""

import time

import torch
from torch import nn


class Warmup(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self._started = None
        self._seconds = 0.0

    def is_first(self):
        return self._started is None

    def forward(self, x):
        start = time.time()
        h = self.linear(x) * (0.1 if self.is_first() else 1.0)
        self._seconds += time.time() - start
        if self._started is None:
            self._started = start
        return torch.relu(h)


def build():
    torch.manual_seed(0)
    return Warmup().eval(), (torch.randn(2, 4),)


def witnesses():
    """The second call is not the first."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4),), (torch.ones(1, 4),)]
