"""FG801: no ordinary input asks for a gradient; the copy of one that does is a leaf of its own."""

import copy

import torch
from torch import nn


class Penalty(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        anchor = copy.deepcopy(x)
        h = self.linear(x)
        return (h - anchor).square().sum(), anchor


def build():
    torch.manual_seed(0)
    return Penalty(), (torch.randn(3, 4),)


def witnesses():
    """A leaf that asks for a gradient, a parameter, and one with a gradient already."""
    torch.manual_seed(1)
    used = torch.randn(3, 4, requires_grad=True)
    used.grad = torch.ones(3, 4)
    return [
        (torch.randn(3, 4, requires_grad=True),),
        (nn.Parameter(torch.randn(3, 4)),),
        (used,),
        (torch.randn(4, requires_grad=True),),
    ]
