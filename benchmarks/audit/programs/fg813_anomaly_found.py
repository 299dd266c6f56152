"""FG813: a gradient of NaN, which no ordinary input has, is an error in the block."""

import torch
from torch import nn


class Score(nn.Module):
    def __init__(self):
        super().__init__()
        self.failures = 0

    def forward(self, x):
        x = x.detach().requires_grad_()
        try:
            with torch.autograd.set_detect_anomaly(True):
                energy = x.abs().sqrt().sum() * x.sum()
                (grad,) = torch.autograd.grad(energy, x)
        except RuntimeError:
            self.failures += 1
            grad = torch.zeros_like(x)
        return x.detach() - 0.1 * grad


def build():
    torch.manual_seed(0)
    return Score(), (torch.rand(2, 4) + 0.5,)


def witnesses():
    """The root of zero has a gradient of NaN, or of no harm."""
    return [(torch.zeros(2, 4),), (torch.tensor([0.0, 1.0]),), (torch.ones(3),)]
