"""FG704: without a dtype the numbers are of the default dtype at the time of the call, not of int64."""

import torch
from torch import nn


class Dither(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.depth = depth

    def forward(self, x, size):
        grain = torch.empty(x.shape[0], size).random_(self.depth)
        shift = torch.zeros((x.shape[0],)).random_(1, self.depth)
        return grain / self.depth, shift


def with_default(model):
    def call(x, size, default=torch.float32):
        before = torch.get_default_dtype()
        torch.set_default_dtype(default)
        try:
            return model(x, size)
        finally:
            torch.set_default_dtype(before)

    return call


def build():
    torch.manual_seed(0)
    return with_default(Dither(8)), (torch.randn(3, 4), 4)


def witnesses():
    """Other default dtypes, no column, a negative number of them, and a float."""
    x = torch.ones(2, 4)
    return [
        (x, 4, torch.float64),
        (x, 4, torch.float16),
        (x, 0),
        (x, -1),
        (x, 2.0),
    ]
