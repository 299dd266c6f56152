"""FG304: the exit comes before a division by zero, whose gradient is not a number."""

import torch
from torch import nn


class NewtonRoot(nn.Module):
    def __init__(self, steps=4, tolerance=1e-3):
        super().__init__()
        self.steps = steps
        self.tolerance = tolerance
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, a, guess):
        a = a * self.gain
        x = guess
        for _ in range(self.steps):
            residual = x * x - a
            if residual.abs().max() < self.tolerance:
                break
            x = x - residual / (2 * x)
        return x * self.gain


def build():
    torch.manual_seed(0)
    return NewtonRoot(), (torch.rand(3) + 1, torch.full((3,), 8.0))


def witnesses():
    """The root of zero from zero, exact roots, a guess that asks for a gradient, and integers."""
    return [
        (torch.zeros(3), torch.zeros(3)),
        (torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)),
        (torch.full((3,), 4.0, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)),
        (torch.tensor([4.0, 9.0]), torch.tensor([2, 3])),
        (torch.tensor([4.0, 9.0]), torch.tensor([1, 1])),
    ]
