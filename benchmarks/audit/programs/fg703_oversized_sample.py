"""FG703: more places than there are raise in the first row, before anything else is drawn or written."""

import random

import torch
from torch import nn


class PatchMask(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.token = nn.Parameter(torch.randn(features))

    def forward(self, x, count=3):
        mask = torch.zeros(x.shape[0], x.shape[1], dtype=torch.bool)
        for row in range(len(x)):
            masked = random.sample(range(x.shape[1]), count)
            mask[row, masked] = True
        return torch.where(mask.unsqueeze(-1), self.token, x), mask


def build():
    torch.manual_seed(0)
    return PatchMask(4), (torch.randn(2, 8, 4),)


def witnesses():
    """More places than there are, all, none, a negative number, no row, and no place."""
    x = torch.ones(2, 5, 4)
    return [
        (x, 6),
        (x, 5),
        (x, 0),
        (x, -1),
        (torch.ones(0, 5, 4), 9),
        (torch.ones(2, 0, 4), 0),
        (x, True),
    ]


def observe():
    return random.getstate()[1][-1]
