"""FG111: no ordinary input asks for a gradient; what is printed of one that does says so."""

import torch
from torch import nn


class Smoothness(nn.Module):
    def __init__(self, weight=0.5):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        steps = x[1:] - x[:-1]
        loss = self.weight * steps.square().mean()
        print("steps", steps)
        print("loss", loss)
        return loss


def build():
    torch.manual_seed(0)
    return Smoothness(), (torch.randn(3, 2),)


def witnesses():
    """A leaf, one in double precision, and one row alone (the mean of nothing)."""
    torch.manual_seed(1)
    return [
        (torch.randn(3, 2).requires_grad_(),),
        (torch.randn(3, 2, dtype=torch.float64).requires_grad_(),),
        (torch.randn(1, 2),),
    ]
