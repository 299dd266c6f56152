"""FG814: what is collected leaves a weak dictionary, whose size is used."""

import gc
import weakref

import torch
from torch import nn


class Record:
    def __init__(self, value):
        self.value = value
        self.owner = self


class Replay(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self._kept = weakref.WeakValueDictionary()
        self._calls = 0

    def forward(self, x, keep=False):
        h = self.net(x)
        if keep:
            self._kept[self._calls] = Record(h.detach())
        self._calls += 1
        gc.collect()
        return h / (1 + len(self._kept))


def build():
    torch.manual_seed(0)
    return Replay().eval(), (torch.randn(2, 4),)


def witnesses():
    """A record that only the collector can free, and none."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4), True), (torch.randn(2, 4), False)]
