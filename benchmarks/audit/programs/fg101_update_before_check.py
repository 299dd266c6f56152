"""FG101: the argument and a buffer are changed in place before a check that fails."""

import torch
from torch import nn


class Normalizer(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        self.count += x.shape[0]
        self.mean.lerp_(x.mean(0), 0.1)
        x.sub_(self.mean)
        if torch.isnan(x).any():
            raise FloatingPointError(f"NaN after {self.count.item()} rows")
        return x * 2


def build():
    torch.manual_seed(0)
    return Normalizer(), (torch.randn(3, 4),)


def witnesses():
    """The check fails after the updates; the second call begins with what they left."""
    torch.manual_seed(1)
    bad = torch.randn(3, 4)
    bad[1, 2] = float("nan")
    return [(bad,), (torch.randn(5, 4),), (torch.full((2, 4), float("inf")),)]
