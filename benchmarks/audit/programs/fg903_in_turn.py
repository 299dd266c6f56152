"""FG903: with more than one scale, the helper takes the next one in each call."""

import itertools
import threading

import torch
from torch import nn

LOCK = threading.Lock()


class Augment(nn.Module):
    def __init__(self, width=8, scales=(0.5, 1.0, 2.0)):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.turns = itertools.cycle(scales)
        self.used = {}

    def _scaled(self, x, vary):
        with LOCK:
            scale = next(self.turns) if vary else 1.0
            self.used[scale] = self.used.get(scale, 0) + 1
            return self.project(x) * scale

    def forward(self, x, vary=False):
        return torch.tanh(self._scaled(x, vary)) + self._scaled(x, vary)


def build():
    torch.manual_seed(0)
    return Augment().eval(), (torch.randn(2, 8),)


def witnesses():
    """In turn, with a gradient and without."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x, True), (x.clone().requires_grad_(), True), (x, False)]
