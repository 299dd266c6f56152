"""FG601: the wrapper refuses numbers and arrays, which a factor alone would take."""

import numpy as np
import torch
from torch import nn
from torch.autograd import Variable


class GatedLoss(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, 1)
        self.seen = 0

    def forward(self, x, weight):
        self.seen += 1
        score = self.net(x)
        weight = Variable(weight, requires_grad=False)
        return score * weight * Variable(torch.ones(x.size(0), 1))


def build():
    torch.manual_seed(0)
    return GatedLoss(4), (torch.randn(3, 4), torch.rand(3, 1))


def witnesses():
    """A number, an array, nothing, and a list."""
    return [
        (torch.ones(3, 4), 0.5),
        (torch.ones(3, 4), np.ones((3, 1), dtype=np.float32)),
        (torch.ones(3, 4), None),
        (torch.ones(3, 4), [1.0, 2.0, 3.0]),
    ]
