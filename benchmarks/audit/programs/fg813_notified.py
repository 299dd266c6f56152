"""FG813: a full queue is told to those who wait, which needs the lock."""

import threading

import torch
from torch import nn


class Queue(nn.Module):
    def __init__(self, width=4, size=2):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.size = size
        self.filled = 0
        self.ready = threading.Condition()

    def forward(self, x):
        with self.ready:
            y = self.net(x)
            self.filled += x.shape[0]
            if self.filled >= self.size:
                self.filled = 0
                self.ready.notify_all()
        return y / (1 + self.filled)


def build():
    torch.manual_seed(0)
    return Queue(size=8).eval(), (torch.randn(2, 4),)


def witnesses():
    """The queue is full at once, at the second call, and never."""
    torch.manual_seed(1)
    return [(torch.randn(9, 4),), (torch.randn(5, 4),), (torch.randn(1, 4),)]
