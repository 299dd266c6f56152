"""FG116: the clock is read in the same statement as a counter and a step of the model."""

import time

import torch
from torch import nn


class Staged(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.calls = 0
        self._seconds = [0.0, 0.0]

    def forward(self, x, index=0):
        start, self.calls = time.time(), self.calls + 1
        x = torch.tanh(self.first(x))
        x, start, spent = self.second(x), time.time(), time.time() - start
        self._seconds[index] += spent
        x = x / self.calls
        self._seconds[-1] += time.time() - start
        return x


def build():
    torch.manual_seed(0)
    return Staged().eval(), (torch.randn(2, 4),)


def witnesses():
    """Two calls each, and an index for which there is no place."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4),), (torch.randn(2, 4), 1), (torch.randn(2, 4), 2)]
