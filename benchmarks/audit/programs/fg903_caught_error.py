"""FG903: the helper raises for an unusual width, before and after it counts, and the caller goes on."""

import threading

import torch
from torch import nn


class WidthError(ValueError):
    def __init__(self, width):
        super().__init__(f"no projection for width {width}")
        self.width = width


class Fallback(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.lock = threading.Lock()
        self.project = nn.Linear(width, width)
        self.rejected = 0

    def _projected(self, x):
        with self.lock:
            if x.shape[-1] != self.project.in_features:
                self.rejected += 1
                raise WidthError(x.shape[-1])
            return self.project(x).relu()

    def forward(self, x, strict=False):
        try:
            return self._projected(x)
        except WidthError as error:
            if strict:
                raise RuntimeError(f"strict: {error}") from error
            return x.new_full(x.shape, float(error.width))


def build():
    torch.manual_seed(0)
    return Fallback().eval(), (torch.randn(2, 8),)


def witnesses():
    """Other widths, strict and not, and no rows."""
    torch.manual_seed(1)
    return [(torch.randn(2, 5),), (torch.randn(2, 5), True), (torch.randn(0, 8),)]
