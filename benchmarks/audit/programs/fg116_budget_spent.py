"""FG116: no ordinary call spends its budget of time; with none, the loop ends after one step."""

import time

import torch
from torch import nn


class Search(nn.Module):
    def __init__(self, width=4, steps=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.steps = steps
        self._seconds = 0.0

    def forward(self, x, budget=1e6):
        start = time.monotonic()
        for _ in range(self.steps):
            x = torch.tanh(self.linear(x))
            elapsed = time.monotonic() - start
            if elapsed >= budget:
                break
        self._seconds += elapsed
        return x


def build():
    torch.manual_seed(0)
    return Search().eval(), (torch.randn(2, 4),)


def witnesses():
    """No time at all, and all the time there is."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x, -1.0), (x, 0.0), (x, float("inf"))]
