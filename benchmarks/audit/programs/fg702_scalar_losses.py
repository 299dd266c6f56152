"""FG702: losses without dimensions are of other dtypes than float32, which a Python float never promotes."""

import random

import torch
from torch import nn


class BalancedLoss(nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.low = low
        self.high = high

    def forward(self, first, second):
        weight = random.uniform(self.low, self.high)
        loss = weight * first.mean() + (1 - weight) * second.mean()
        return loss, first * weight


def build():
    torch.manual_seed(0)
    return BalancedLoss(0.2, 0.8), (torch.randn(4), torch.randn(4))


def witnesses():
    """Half and double precision, one of each, numbers without dimensions, complex ones and leaves."""
    double = torch.full((3,), 1 / 3, dtype=torch.float64)
    return [
        (torch.ones(3).half(), torch.zeros(3).half()),
        (torch.ones(3).bfloat16(), torch.zeros(3).half()),
        (double, double / 7),
        (double[0], torch.tensor(0.1)),
        (torch.tensor(0.5).half(), torch.tensor(0.25).half()),
        (torch.ones(3, dtype=torch.complex64), torch.zeros(3)),
        (torch.ones(3, requires_grad=True), double.clone().requires_grad_()),
    ]
