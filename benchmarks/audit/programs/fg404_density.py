"""FG404: a share of two Python numbers has double precision, and of an empty mask it is an error."""

import torch
from torch import nn


class DensityScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.tensor(0.1))

    def forward(self, x, mask):
        density = len(mask.nonzero()) / mask.numel()
        return x * density + self.bias


def build():
    torch.manual_seed(0)
    return DensityScale(), (torch.randn(2, 6), torch.rand(2, 6) > 0.4)


def witnesses():
    """Doubles, an empty mask, halves, complex numbers, integers, weights as a mask, and a single
    bool.
    """
    x = torch.linspace(-1, 1, 6)
    mask = torch.tensor([True, False, False])
    return [
        (x.double(), mask),
        (x, torch.zeros(0, dtype=torch.bool)),
        (x.half(), mask),
        (x.to(torch.complex128), mask),
        (torch.arange(6), mask),
        (x, torch.tensor([2, 0, 3])),
        (x, torch.tensor([0.5, float("nan"), -1.0])),
        (x, torch.tensor(True)),
    ]
