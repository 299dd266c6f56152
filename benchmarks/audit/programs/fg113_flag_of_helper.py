"""FG113: another method reads the flag that is set beside the warning."""

import warnings

import torch
from torch import nn


class Guarded(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.warned = False

    def clean(self, h):
        return torch.nan_to_num(h) if self.warned else h

    def forward(self, x):
        h = self.linear(x)
        if h.isnan().any() and not self.warned:
            warnings.warn("NaN in the activations", RuntimeWarning)
            self.warned = True
        return self.clean(h)


def build():
    torch.manual_seed(0)
    return Guarded().eval(), (torch.randn(2, 4),)


def witnesses():
    """NaN, which is warned of once and cleaned from then on."""
    torch.manual_seed(1)
    mixed = torch.randn(2, 4)
    mixed[0, 0] = float("nan")
    return [(mixed,), (torch.randn(2, 4),)]
