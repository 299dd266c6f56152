"""FG114: a parameter has the name that the edit would give to the iterable."""

import torch
from torch import nn
from tqdm import trange


class Solver(nn.Module):
    def __init__(self, width=4, steps=3):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.steps = steps

    def forward(self, x, iterations=2):
        for i in trange(self.steps, leave=False, disable=None):
            x = x + self.linear(x) / (i + 1)
        for _ in range(iterations):
            x = torch.tanh(x)
        return x / iterations


def build():
    torch.manual_seed(0)
    return Solver().eval(), (torch.randn(2, 4), 2)


def witnesses():
    """Other numbers than the one of the bar."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4), 1), (torch.randn(2, 4), 5)]
