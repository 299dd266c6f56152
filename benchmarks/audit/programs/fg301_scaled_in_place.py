"""FG301: where nothing is scaled, the tensor that is shifted in place is the argument itself."""

import torch
from torch import nn


class PeakLimit(nn.Module):
    def __init__(self, width, limit=1.0):
        super().__init__()
        self.limit = limit
        self.register_buffer("offset", torch.linspace(0, 1, width))

    def forward(self, x):
        if x.abs().max() > self.limit:
            x = x / x.abs().max()
        x += self.offset
        return x


def build():
    torch.manual_seed(0)
    return PeakLimit(4), (torch.randn(3, 4) * 5,)


def witnesses():
    """Quiet at first, loud after the first call, NaN, and an expanded tensor."""
    return [
        (torch.full((2, 4), 0.25),),
        (torch.full((2, 4), 0.9),),
        (torch.full((2, 4), float("nan")),),
        (torch.full((1, 4), 3.0).expand(2, 4),),
    ]
