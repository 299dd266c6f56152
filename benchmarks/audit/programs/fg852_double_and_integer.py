"""FG852: the number is a float, in double precision for double inputs, and of no weight for integers."""

import torch
from torch import nn


class Decayed(nn.Module):
    def __init__(self, rate=0.9):
        super().__init__()
        self.rate = rate
        self.decay = 1.0

    def forward(self, x):
        self.decay *= self.rate
        return x * self.decay


def build():
    torch.manual_seed(0)
    return Decayed(), (torch.randn(2, 4),)


def witnesses():
    """Double precision, halves, integers, one number without dimensions, and complex numbers."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [
        (x.double().requires_grad_(),),
        (x.half(),),
        (torch.arange(6),),
        (torch.tensor(3.0, dtype=torch.float16),),
        (torch.complex(x, -x),),
    ]
