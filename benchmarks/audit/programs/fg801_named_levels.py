"""FG801: the features are a list in ordinary calls, and a named tuple, a dict or None too."""

import collections
import copy

import torch
from torch import nn

Levels = collections.namedtuple("Levels", ["fine", "coarse"])


class Skip(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, features):
        kept = copy.deepcopy(features)
        h = self.linear(x)
        if features:
            features[0].zero_()
            h = h + kept[0]
        return h, kept


def build():
    torch.manual_seed(0)
    return Skip().eval(), (torch.randn(2, 4), [torch.randn(2, 4), torch.randn(1, 4)])


def witnesses():
    """Other containers, none, and a list that holds None or a number."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [
        (x, Levels(torch.randn(2, 4), torch.randn(1, 4))),
        (x, {0: torch.randn(2, 4)}),
        (x, None),
        (x, [torch.randn(2, 4), None, 3]),
        (x, [torch.randn(2, 4), [torch.randn(1)]]),
    ]
