"""FG201: the number is read before the buffer that it comes from is updated in place."""

import torch
from torch import nn


class Scaler(nn.Module):
    def __init__(self, momentum=0.9):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x, update=False):
        previous = self.scale.item()
        first = x[0, 0].item()
        if update:
            self.scale.mul_(self.momentum).add_(x.abs().max(), alpha=1 - self.momentum)
            x.sub_(x.mean())
        return x * previous + first * self.scale


def build():
    torch.manual_seed(0)
    return Scaler(), (torch.randn(3, 4),)


def witnesses():
    """Both update what the numbers were read from."""
    torch.manual_seed(1)
    return [(torch.randn(3, 4), True), (torch.full((2, 2), 3.0, dtype=torch.float64), True)]
