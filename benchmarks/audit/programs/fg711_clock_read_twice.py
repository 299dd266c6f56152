"""FG711: the clock is read before and after the network, and the order of both counts."""

import time

import torch
from torch import nn


class TimedNet(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, features)
        self.forwards = 0
        self.slow = 0

    def forward(self, x, budget=3600.0):
        start = time.perf_counter()
        y = self.net(x).relu()
        elapsed = time.perf_counter() - start
        self.forwards += 1
        if elapsed >= budget:
            self.slow += 1
            print("slow forward", self.forwards)
        return y


def build():
    torch.manual_seed(0)
    return TimedNet(4).eval(), (torch.randn(2, 4),)


def witnesses():
    """A budget of no time at all, which each call exceeds, and one of less than that."""
    return [(torch.ones(2, 4), 0.0), (torch.ones(2, 4), -1.0), (torch.ones(2, 3), 0.0)]
