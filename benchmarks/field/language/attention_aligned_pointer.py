"""A kernel wrapper copies its input when the memory is not aligned."""

import torch
from torch import nn


def aligned(x, size: int = 16):
    if x.data_ptr() & (size - 1):
        x = x.clone()
    return x


class FusedNorm(nn.Module):
    def __init__(self, width: int = 10) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x, residual):
        x, residual = aligned(x), aligned(residual)
        total = x + residual
        return nn.functional.layer_norm(total, total.shape[-1:], self.weight, self.bias), total


def build():
    torch.manual_seed(0)
    return FusedNorm(), (torch.randn(3, 10), torch.randn(3, 10))
