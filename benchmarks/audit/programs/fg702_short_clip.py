"""FG702: a clip that is shorter than the masked span makes the second draw raise, after the first has been drawn."""

import random

import torch
from torch import nn


class TimeMask(nn.Module):
    def __init__(self, longest):
        super().__init__()
        self.longest = longest
        self.masked = 0

    def forward(self, x):
        width = random.randint(1, self.longest)
        start = random.randint(0, x.shape[1] - width)
        x[:, start : start + width] = 0
        self.masked += 1
        return x


def build():
    torch.manual_seed(0)
    return TimeMask(6).eval(), (torch.randn(2, 20),)


def witnesses():
    """Clips that are too short for most spans, empty ones, integers, no row, and a leaf."""
    return [
        (torch.ones(2, 3),),
        (torch.ones(2, 0),),
        (torch.ones(2, 8, dtype=torch.int64),),
        (torch.ones(0, 8),),
        (torch.ones(2, 8, requires_grad=True),),
        (torch.ones(1, 8).expand(2, 8),),
        (torch.ones(2, 7, 3),),
    ]


def observe():
    return random.getstate()[1][-1]
