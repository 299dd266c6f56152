"""FG115: of two filters the later one wins, but not where it is appended."""

import warnings

import torch
from torch import nn


def check(x):
    if x.dtype in (torch.float16, torch.bfloat16):
        warnings.warn("low precision", RuntimeWarning)
    if x.shape[0] == 1:
        warnings.warn("one row", UserWarning)
    return x.float()


class Standardize(nn.Module):
    def __init__(self, strict=False):
        super().__init__()
        self.strict = strict

    def forward(self, x, strict=False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if strict:
                warnings.simplefilter("error", RuntimeWarning)
            x = check(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", append=True)
            x = check(x[:1])
        return x - x.mean()


def build():
    torch.manual_seed(0)
    return Standardize(), (torch.randn(3, 4),)


def witnesses():
    """Low precision ignored or an error; one row is ignored by the first block alone."""
    torch.manual_seed(1)
    x = torch.randn(3, 4)
    return [(x.half(),), (x.half(), True), (x[:1],), (x[:1], True)]
