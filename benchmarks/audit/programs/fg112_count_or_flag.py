"""FG112: what is printed beside the norm is an int in ordinary calls, and a bool, float or None."""

import sys

import torch
from torch import nn


class Dropper(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.linear.requires_grad_(False)

    def forward(self, x, keep=2):
        h = self.linear(x)
        print("keep", keep, "norm", round(h.norm().item(), 3), sep="\t", file=sys.stdout)
        if keep:
            h = h[..., : int(keep)]
        return h


def build():
    torch.manual_seed(0)
    return Dropper().eval(), (torch.randn(2, 6), 2)


def witnesses():
    """Other kinds of numbers, and none."""
    torch.manual_seed(1)
    x = torch.randn(2, 6)
    kinds = (True, False, 0, 3.0, None, torch.tensor(2), -1)
    return [(x, keep) for keep in kinds]
