"""FG308: what has a length and an index may still have no slices: a deque, or a dict by position."""

from collections import deque

import torch
from torch import nn


class Extrapolate(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.5))

    def previous(self, values):
        return values[1] if len(values) > 1 else values[0]

    def forward(self, x, accepted, history=None):
        if history is None:
            history = x[accepted]
        return x[-1] + self.rate * (x[-1] - self.previous(history))


def build():
    torch.manual_seed(0)
    accepted = torch.tensor([True, False, True, True])
    return Extrapolate(), (torch.randn(4, 3), accepted)


def witnesses():
    """A deque of two and of one, a dict of positions, a list, a mask of one row and of none."""
    x = torch.arange(12.0).view(4, 3)
    none = torch.zeros(4, dtype=torch.bool)
    one = torch.tensor([False, False, True, False])
    return [
        (x, none, deque([x[0].clone(), x[2].clone()], maxlen=2)),
        (x, none, deque([x[1].clone()])),
        (x, none, {0: torch.ones(3), 1: torch.zeros(3)}),
        (x, none, [torch.ones(3)]),
        (x, none, []),
        (x, one),
        (x, none),
    ]
