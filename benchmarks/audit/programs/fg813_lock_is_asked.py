"""FG813: a method asks whether the lock is held, and does something else if it is not."""

import threading

import torch
from torch import nn


class Cache(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.lock = threading.Lock()
        self.kept = None

    def keep(self, y):
        if not self.lock.locked():
            raise RuntimeError("the cache is written without its lock")
        self.kept = y.detach()

    def forward(self, x, keep=False):
        with self.lock:
            y = self.net(x)
            if keep:
                self.keep(y)
        if self.kept is not None and not self.lock.locked():
            y = y + self.kept
        return y


def build():
    torch.manual_seed(0)
    return Cache().eval(), (torch.randn(2, 4),)


def witnesses():
    """Kept, and an error in the block after which the lock is free."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4), True), (torch.randn(2, 3), True), (torch.randn(2, 4), False)]
