"""FG903: on request the helper changes a buffer in place and its argument as well, and counts."""

import threading

import torch
from torch import nn

LOCK = threading.Lock()


class Centered(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.register_buffer("mean", torch.zeros(width))
        self.updates = 0

    def _centered(self, h, update):
        with LOCK:
            if update:
                self.updates += 1
                self.mean.lerp_(h.detach().mean(0), 1.0 / self.updates)
                return h.sub_(self.mean)
            return h - self.mean

    def forward(self, x, update=False):
        h = self.project(x)
        centered = self._centered(h, update)
        return centered, h * 2


def build():
    torch.manual_seed(0)
    return Centered().eval(), (torch.randn(3, 4),)


def witnesses():
    """Updates, with a gradient and of one row, and none."""
    torch.manual_seed(1)
    x = torch.randn(3, 4)
    return [(x, True), (x.clone().requires_grad_(), True), (x[:1], True), (x, False)]
