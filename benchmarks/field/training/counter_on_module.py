"""A module counts its calls and warms up by the count."""

import torch
from torch import nn


class WarmedUp(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.linear, self.count = nn.Linear(width, width), 0

    def forward(self, x):
        self.count += 1
        return self.linear(x) * min(1.0, self.count / 10)


def build():
    torch.manual_seed(0)
    return WarmedUp(), (torch.randn(3, 4),)


build_calls = [(torch.ones(3, 4) * i,) for i in range(1, 6)]
