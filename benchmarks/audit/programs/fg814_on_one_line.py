"""FG814: the line that collects drops the cache as well, and the next call must miss it."""

import gc

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self._cache = None

    def forward(self, x, release=False):
        h = self.net(x)
        if self._cache is not None:
            h = h + self._cache
        self._cache = h.detach()
        if release:
            self._cache = None
            gc.collect()
        if h.dim() == 1:
            gc.collect()
        else:
            h = torch.relu(h)
        return h


def build():
    torch.manual_seed(0)
    return Attention().eval(), (torch.randn(2, 4), True)


def witnesses():
    """Kept, released, and a vector, for which nothing but the collection is done."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4), False), (torch.randn(2, 4), True), (torch.randn(4), False)]
