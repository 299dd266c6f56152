"""A helper counts its calls in a global of its module."""

import torch
from torch import nn

CALLS = 0


def traced(x):
    global CALLS
    CALLS += 1
    return x.relu() + 0.001 * CALLS


class CountedHelper(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x):
        return traced(self.net(x))


def build():
    torch.manual_seed(0)
    return CountedHelper(), (torch.randn(3, 4),)


build_calls = [(torch.ones(3, 4) * i,) for i in range(1, 5)]
