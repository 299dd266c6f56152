"""A variance by the difference of large squares: the error of rounding is all there is to see."""

import torch
from torch import nn


class MomentNorm(nn.Module):
    """Normalize by E[x²] - E[x]², as some exported networks do."""

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        return (x - mean) / (variance.abs() + 1e-12).sqrt()


class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm, self.mix = MomentNorm(), nn.Linear(width, width)

    def forward(self, x):
        return self.norm(x + 1000.0), torch.tanh(self.mix(x))


def build():
    torch.manual_seed(0)
    return Net().eval().requires_grad_(False), (torch.randn(4, 64),)
