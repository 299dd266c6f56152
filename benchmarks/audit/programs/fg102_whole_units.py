"""FG102: int() cuts the fraction off, so that less than one unit above the limit is no error."""

import torch
from torch import nn


class Limiter(nn.Module):
    def __init__(self, limit=4.0):
        super().__init__()
        self.limit = limit
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        h = x * self.scale
        excess = int((h.abs().max() - self.limit).clamp(min=0))
        if excess:
            raise ValueError("the activations are a unit or more above the limit")
        return torch.tanh(h)


def build():
    torch.manual_seed(0)
    return Limiter(), (torch.randn(3, 4),)


def witnesses():
    """Half a unit above, one unit and a half, and exactly one."""
    return [(torch.full((2, 4), value),) for value in (4.5, -5.5, 5.0, 4.999)]
