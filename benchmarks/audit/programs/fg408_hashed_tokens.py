"""FG408: bincount takes every dtype of integers but no table, and no remainder of floats."""

import torch
from torch import nn


class HashedBag(nn.Module):
    def __init__(self, buckets=8):
        super().__init__()
        self.buckets = buckets
        self.project = nn.Linear(buckets, 3)

    def forward(self, tokens):
        bag = torch.bincount(tokens % self.buckets, minlength=self.buckets)
        return self.project(bag.float()), bag


def build():
    torch.manual_seed(0)
    return HashedBag().eval(), (torch.tensor([3, 17, 250, 3, 8, 1]),)


def witnesses():
    """int32, bytes, small signed integers, negative ones, floats, bools, a table, one token, none."""
    return [
        (torch.tensor([3, 17, 250], dtype=torch.int32),),
        (torch.tensor([3, 17, 250], dtype=torch.uint8),),
        (torch.tensor([3, 17, -100], dtype=torch.int8),),
        (torch.tensor([-1, -8, -9, 2**62]),),
        (torch.tensor([3.0, 17.0]),),
        (torch.tensor([True, False, True]),),
        (torch.tensor([[3, 17], [250, 3]]),),
        (torch.tensor(9),),
        (torch.zeros(0, dtype=torch.int64),),
        (torch.zeros(0),),
        (torch.arange(12)[::3],),
    ]
