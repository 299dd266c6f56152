"""FG302: where the layer is skipped, the tensor that is shifted in place and returned
is the argument."""

import torch
from torch import nn


class SkipBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.register_buffer("offset", torch.linspace(0, 1, width))

    def forward(self, x):
        if x.mean() > 0:
            y = self.layer(x)
        else:
            y = x
        y += self.offset
        return y


def build():
    torch.manual_seed(0)
    return SkipBlock(4).eval(), (torch.rand(2, 4),)


def witnesses():
    """Skipped twice, skipped once, a view of a larger tensor, and NaN."""
    wide = torch.full((2, 8), -2.0)
    return [
        (torch.full((2, 4), -2.0),),
        (torch.full((2, 4), -0.25),),
        (wide[:, ::2],),
        (torch.full((2, 4), float("nan")),),
    ]
