"""FG115: the filter ignores one message alone; the other warning must be heard."""

import warnings

import torch
from torch import nn


class Resize(nn.Module):
    def __init__(self, factor=2):
        super().__init__()
        self.factor = factor

    def resize(self, x):
        if x.shape[-1] % self.factor:
            warnings.warn("odd width: the last column is dropped")
        if x.shape[-1] < 2:
            warnings.warn("nothing is left of the image")
        width = x.shape[-1] // self.factor * self.factor
        return x[..., :width].unflatten(-1, (-1, self.factor)).mean(-1)

    def forward(self, x):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="odd width")
            y = self.resize(x)
        return y * 2


def build():
    torch.manual_seed(0)
    return Resize(), (torch.randn(2, 8),)


def witnesses():
    """An odd width is ignored; of a width of one, one warning of two."""
    torch.manual_seed(1)
    return [(torch.randn(2, 5),), (torch.randn(2, 1),), (torch.randn(2, 3, 3),)]
