"""FG801: a tensor that the list holds twice, or a view of another, is copied once."""

import copy

import torch
from torch import nn


class Pyramid(nn.Module):
    def __init__(self, gain=0.5):
        super().__init__()
        self.gain = gain

    def forward(self, features):
        levels = copy.deepcopy(features)
        for i, level in enumerate(levels):
            level.mul_(self.gain).add_(i)
        return [level - feature for level, feature in zip(levels, features)], levels


def build():
    torch.manual_seed(0)
    return Pyramid(), ([torch.randn(2, 4), torch.randn(2, 2)],)


def witnesses():
    """The same tensor twice, a view of another, a tuple, and none."""
    torch.manual_seed(1)
    one = torch.randn(2, 4)
    return [
        ([one, one],),
        ([one, one[:, 1:3]],),
        ((one, one.clone()),),
        ([],),
    ]
