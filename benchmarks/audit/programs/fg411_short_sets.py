"""FG411: sets of no and of one element have no pairs, and the empty result keeps shape, dtype and gradient."""

import torch
from torch import nn


class PairDistances(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))

    def forward(self, marks):
        i, j = torch.combinations(marks).T
        own = torch.combinations(self.scaled(marks), with_replacement=True)
        pairs = torch.combinations(marks)
        return (i - j) ** 2, own, pairs

    def scaled(self, marks):
        return marks * self.weight[: len(marks)]


def build():
    torch.manual_seed(0)
    return PairDistances(6).eval(), (torch.randn(4),)


def witnesses():
    """No mark, one mark, complex marks, integers, half of a strided tensor, and marks that ask for a gradient."""
    return [
        (torch.randn(0),),
        (torch.randn(1, requires_grad=True),),
        (torch.randn(4, dtype=torch.complex64),),
        (torch.tensor([3, 3, -1, 2**40]),),
        (torch.randn(12)[::2],),
        (torch.randn(5, dtype=torch.float64, requires_grad=True),),
    ]
