"""A scheduler object counts its own steps and indexes its sigmas by the count."""

import torch
from torch import nn


class Scheduler:
    def __init__(self, steps: int = 8) -> None:
        self.sigmas = torch.linspace(5.0, 0.1, steps + 1)
        self.index = None

    def step(self, slope, x):
        if self.index is None:
            self.index = 0
        sigma, to = self.sigmas[self.index], self.sigmas[self.index + 1]
        self.index += 1
        return x + slope * (to - sigma)


class CountedSampler(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net, self.scheduler = nn.Linear(width, width), Scheduler()

    def forward(self, x):
        return self.scheduler.step(self.net(x), x)


def build():
    torch.manual_seed(0)
    return CountedSampler(), (torch.randn(2, 4),)


build_calls = [(torch.ones(2, 4) * i,) for i in range(5)]
