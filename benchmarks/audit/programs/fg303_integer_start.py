"""FG303: the first iteration makes floats of integers, and none leaves them as they are."""

import torch
from torch import nn


class Damp(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, x):
        while x.abs().max() > self.limit:
            x = x * 0.5
        return x + 1


def build():
    torch.manual_seed(0)
    return Damp(2.0), (torch.randn(3, 4) * 9,)


def witnesses():
    """Integers above and below the limit, bools, half precision, and a maximum of nothing."""
    return [
        (torch.tensor([9, -20, 1]),),
        (torch.tensor([1, -2, 0]),),
        (torch.tensor([True, False]),),
        (torch.tensor([60000.0, 1.0], dtype=torch.float16),),
        (torch.zeros(0),),
    ]
