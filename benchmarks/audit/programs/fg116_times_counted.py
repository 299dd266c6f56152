"""FG116: the number of times measured so far is the number of the step."""

import time

import torch
from torch import nn

TIMES = []


class Annealed(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        start = time.perf_counter()
        h = self.linear(x)
        TIMES.append(time.perf_counter() - start)
        temperature = 1.0 / len(TIMES) if TIMES else 1.0
        return torch.softmax(h / temperature, -1)


def build():
    torch.manual_seed(0)
    return Annealed().eval(), (torch.randn(2, 4),)


def witnesses():
    """Two steps each."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4),), (torch.randn(0, 4),)]


def observe():
    return len(TIMES)
