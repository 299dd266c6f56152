"""FG302: the expert that no ordinary input reaches counts its calls, and each call adds one."""

import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) / self.calls


class TwoExperts(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(width, width)
        self.b = Expert(width)

    def forward(self, x):
        if x.mean() > 0:
            y = self.a(x)
        else:
            y = self.b(x)
        return y.tanh()


def build():
    torch.manual_seed(0)
    return TwoExperts(4).eval(), (torch.rand(2, 4),)


def witnesses():
    """The expert is called twice, with zeros too."""
    return [(torch.full((2, 4), -1.0),), (torch.zeros(2, 4),), (torch.full((2, 4), 2.0),)]
