"""FG602: the anchor is already in a list when its flag is switched off, and the list must see that."""

import torch
from torch import nn


class AnchorBank(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, features)

    def forward(self, x, bank, learn=False):
        anchor = torch.zeros_like(x, requires_grad=learn)
        bank.append(anchor)
        anchor.requires_grad = False
        target = self.net(x) + anchor
        anchor += 1
        return target, bank


def build():
    torch.manual_seed(0)
    return AnchorBank(4), (torch.randn(2, 4), [])


def witnesses():
    """Anchors that are made as leaves, for inputs of float32 and of integers."""
    return [
        (torch.ones(2, 4), [], True),
        (torch.ones(2, 4), [torch.ones(4)], True),
        (torch.ones(2, 4, dtype=torch.int64), [], True),
    ]
