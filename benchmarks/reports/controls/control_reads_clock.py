"""A model whose output decays with the seconds since it was made."""

import time

import torch
from torch import nn


class Decaying(nn.Module):
    def __init__(self, width=8, half_life=5.0):
        super().__init__()
        self.mix, self.half_life, self.made = (
            nn.Linear(width, width),
            half_life,
            time.perf_counter(),
        )

    def age(self):
        return time.perf_counter() - self.made

    def forward(self, x):
        return torch.relu(self.mix(x)) * 0.5 ** (self.age() / self.half_life)


def build():
    torch.manual_seed(0)
    return Decaying().eval(), (torch.randn(3, 8),)
