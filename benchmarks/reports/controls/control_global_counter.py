"""A warm-up over the calls that a global counts: no two calls give the same."""

import torch
from torch import nn

CALLS = [0]


class WarmUp(nn.Module):
    def __init__(self, width=8, steps=100):
        super().__init__()
        self.mix, self.steps = nn.Linear(width, width), steps

    def factor(self):
        CALLS[0] += 1
        return min(1.0, CALLS[0] / self.steps)

    def forward(self, x):
        return x + self.factor() * torch.tanh(self.mix(x))


def build():
    torch.manual_seed(0)
    return WarmUp().eval(), (torch.randn(3, 8),)
