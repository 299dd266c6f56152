"""FG304: the layers after the exit count their calls and log, and must not be called."""

import torch
from torch import nn

ORDER = []


class Counted(nn.Module):
    def __init__(self, width, name):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.name = name
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        ORDER.append(self.name)
        return self.linear(x) / self.calls


class Confident(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(Counted(width, f"layer {i}") for i in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.softmax(dim=-1).max() > 0.95:
                break
        return x


def build():
    torch.manual_seed(0)
    ORDER.clear()
    return Confident(4).eval(), (torch.randn(2, 4),)


def observe():
    return list(ORDER)


def witnesses():
    """Sure after the first layer, never sure, and NaN."""
    return [(torch.full((2, 4), 90.0),), (torch.zeros(2, 4),), (torch.full((2, 4), float("nan")),)]
