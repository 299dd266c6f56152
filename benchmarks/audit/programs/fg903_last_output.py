"""FG903: on request the helper keeps its output in the module, for other code to read."""

import threading

import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.lock = threading.RLock()
        self.project = nn.Linear(width, width)
        self.last = None
        self.largest = []

    def _projected(self, x, keep):
        with self.lock:
            h = torch.relu(self.project(x))
            if keep:
                self.last = h.detach()
                self.largest.append(h.detach().amax(-1))
        return h

    def forward(self, x, keep=False):
        h = self._projected(x, keep)
        return h / (1.0 + h.sum(-1, keepdim=True))


def build():
    torch.manual_seed(0)
    return Probe().eval(), (torch.randn(2, 8),)


def witnesses():
    """Kept, kept for one row, and not kept."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x, True), (x[:1].requires_grad_(), True), (x, False)]
