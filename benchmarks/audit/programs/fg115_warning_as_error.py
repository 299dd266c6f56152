"""FG115: a warning is an error in the block, which a handler turns into another result."""

import warnings

import torch
from torch import nn


class Inverse(nn.Module):
    def __init__(self, eps=1e-3):
        super().__init__()
        self.eps = eps
        self.failures = 0

    def scale(self, x):
        if x.shape[0] == 1:
            warnings.warn("the deviation of one row is undefined", UserWarning)
        if x.dtype == torch.float64:
            warnings.warn("double precision is slow", FutureWarning)
        return x.std(0) + self.eps

    def forward(self, x):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                scale = self.scale(x)
        except UserWarning as warning:
            self.failures += 1
            print("fallback:", warning)
            scale = torch.ones_like(x[0])
        return x / scale


def build():
    torch.manual_seed(0)
    return Inverse(), (torch.randn(3, 4),)


def witnesses():
    """One row takes the handler; double precision is warned of, alone or before it."""
    torch.manual_seed(1)
    return [
        (torch.randn(1, 4),),
        (torch.randn(3, 4).double(),),
        (torch.randn(1, 4).double(),),
    ]
