"""FG301: the branch for large values keeps from an exponential whose gradient is
infinity by infinity."""

import torch
from torch import nn


class Softplus(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        z = x * self.scale
        if z.max() > 20:
            return z * 1.0
        return torch.log(1 + torch.exp(z))


def build():
    torch.manual_seed(0)
    return Softplus(4), (torch.randn(3, 4),)


def witnesses():
    """Values that overflow, ones that do not, and NaN."""
    return [
        (torch.full((2, 4), 200.0, requires_grad=True),),
        (torch.full((2, 4), 30.0, requires_grad=True),),
        (torch.tensor([[0.0, -200.0, float("nan"), 5.0]]),),
    ]
