"""FG306: at the last step the variance is zero, and the root of it must not make the gradient NaN."""

import torch
from torch import nn


class LearnedVariance(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x, variance, t):
        mean = self.mean(x)
        if t > 0:
            return mean + self.scale * torch.sqrt(variance) * torch.randn_like(mean)
        return mean


def build():
    torch.manual_seed(0)
    return LearnedVariance(), (torch.randn(3, 4), torch.full((4,), 0.2), torch.tensor(3))


def witnesses():
    """A variance of zero, a negative one, and an infinite one, each with a gradient, at the last
    step.
    """
    x = torch.linspace(-1, 1, 12).view(3, 4)
    last = torch.tensor(0)
    return [
        (x, torch.zeros(4, requires_grad=True), last),
        (x, torch.full((4,), -1.0, requires_grad=True), last),
        (x, torch.full((4,), float("inf"), requires_grad=True), last),
        (x, torch.zeros(2, 3, 4, requires_grad=True), last),
        (x, torch.full((4,), 0.5, requires_grad=True), torch.tensor(1)),
    ]
