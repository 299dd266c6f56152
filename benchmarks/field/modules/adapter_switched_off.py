"""Every other call runs without the adapter, which is a flag on the module."""

import torch
from torch import nn


class Switched(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.base, self.adapter = nn.Linear(width, width), nn.Linear(width, width)
        self.disabled, self.strength = False, 0.1

    def forward(self, x):
        out = self.base(x)
        if not self.disabled:
            out = out + self.strength * self.adapter(x)
        self.disabled = not self.disabled
        self.strength = self.strength + 0.1
        return out


def build():
    torch.manual_seed(0)
    return Switched(), (torch.randn(3, 4),)


build_calls = [(torch.ones(3, 4) * i,) for i in range(1, 6)]
