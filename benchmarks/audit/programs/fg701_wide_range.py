"""FG701: the range of the draw is an argument, which may be empty or go beyond 64 bits."""

import random

import torch
from torch import nn


class HashedSign(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = nn.Linear(features, features)
        self.draws = 0

    def forward(self, x, buckets=1024):
        y = self.proj(x)
        bucket = random.randrange(buckets)
        self.draws += 1
        if bucket % 2 == 1:
            y = -y
        if bucket * 2 > buckets:
            y = y + 1
        return y


def build():
    torch.manual_seed(0)
    return HashedSign(4).eval(), (torch.randn(2, 4),)


def witnesses():
    """Ranges of more than 64 bits and of exactly 63, no bucket at all, one bucket, and a negative number."""
    x = torch.ones(2, 4)
    return [(x, 2**70), (x, 2**63), (x, 2**63 - 1), (x, 0), (x, 1), (x, -3)]
