"""FG115: the warnings of the block are recorded, and their number is used."""

import warnings

import torch
from torch import nn


def quantile(x, q):
    if x.numel() < 4:
        warnings.warn(f"few values for the quantile {q}")
    return x.flatten().sort().values[int(q * (x.numel() - 1))]


class Robust(nn.Module):
    def forward(self, x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            low, high = quantile(x, 0.25), quantile(x, 0.75)
        return (x - low) / (high - low + 1e-3) / (1 + len(caught))


def build():
    torch.manual_seed(0)
    return Robust(), (torch.randn(3, 4),)


def witnesses():
    """Few values: two warnings are recorded, and none is heard."""
    torch.manual_seed(1)
    return [(torch.randn(3),), (torch.randn(1, 1),), (torch.randn(2, 2),)]
