"""FG115: the first call in the block comes before the filter, and its warning is heard."""

import warnings

import torch
from torch import nn


def soft_clip(x, limit):
    if x.dtype == torch.float16:
        warnings.warn(f"clipped to {limit} in half precision", RuntimeWarning)
    return torch.tanh(x / limit) * limit


class Clipper(nn.Module):
    def __init__(self, limits=(4.0, 2.0)):
        super().__init__()
        self.limits = limits

    def forward(self, x):
        outer, inner = self.limits
        with warnings.catch_warnings():
            x = soft_clip(x, outer)
            warnings.simplefilter("ignore", RuntimeWarning)
            x = soft_clip(x, inner)
        return soft_clip(x, 1.0)


def build():
    torch.manual_seed(0)
    return Clipper(), (torch.randn(2, 4),)


def witnesses():
    """Half precision: two warnings of three are heard."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4).half(),), (torch.randn(2, 4).double(),)]
