"""FG301: the deviation of a flat signal is zero, and its gradient there is not a number."""

import torch
from torch import nn


class Standardise(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        x = x + self.shift
        if x.std() < 1e-6:
            y = x - x.mean()
        else:
            y = (x - x.mean()) / x.std()
        return y * x.norm()


def build():
    torch.manual_seed(0)
    return Standardise(4), (torch.randn(3, 4),)


def witnesses():
    """All equal, all zero but one, and infinite."""
    return [
        (torch.full((2, 4), 2.0, requires_grad=True),),
        (torch.tensor([[0.0, 0.0, 0.0, 1.0]], requires_grad=True),),
        (torch.tensor([[1.0, 2.0, float("inf"), 1.0]]),),
    ]
