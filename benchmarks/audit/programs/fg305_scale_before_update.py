"""FG305: the scale is read before it is updated in place, and a number of double
precision after."""

import torch
from torch import nn


class RunningScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x, update=False):
        scale = float(self.scale)
        if update:
            self.scale.mul_(0.5).add_(x.abs().max(), alpha=0.5)
        if scale > 4:
            scale = 4.0
        return x / scale + self.scale


def build():
    torch.manual_seed(0)
    return RunningScale(), (torch.randn(3, 4),)


def witnesses():
    """Updated to more and to less than the limit, with doubles, integers, and a leaf."""
    return [
        (torch.full((2, 2), 20.0), True),
        (torch.full((2, 2), 0.1, dtype=torch.float64), True),
        (torch.tensor(0.7, dtype=torch.float64), True),
        (torch.tensor([1, 2]), False),
        (torch.ones(2, requires_grad=True), True),
    ]
