"""FG111: print is a function of the module here, which adds a prefix and counts its lines."""

import builtins

import torch
from torch import nn

RANK = 0
LINES = []


def print(*values):
    LINES.append(len(values))
    builtins.print(f"[rank {RANK}]", *values)


class Monitor(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.linear.requires_grad_(False)

    def forward(self, x):
        h = self.linear(x)
        print("mean", h.mean())
        print(f"peak {h.abs().max().item():.3f}")
        return h


def build():
    torch.manual_seed(0)
    return Monitor().eval(), (torch.randn(2, 4),)


def witnesses():
    """An ordinary batch, NaN, and one element."""
    return [(torch.ones(2, 4),), (torch.full((1, 4), float("nan")),)]


def observe():
    return LINES
