"""FG604: a loss of the program's own has `size_average` with its own meaning, beside one of torch."""

import torch
import torch.nn.functional as F
from torch import nn


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, size_average=True):
        super().__init__()
        self.gamma = gamma
        self.size_average = size_average

    def forward(self, logits, target):
        each = F.cross_entropy(logits, target, reduce=False)
        focal = (1 - torch.exp(-each)) ** self.gamma * each
        return focal.mean() if self.size_average else focal.sum() / logits.shape[-1]


class SumLoss(nn.MSELoss):
    def __init__(self, size_average=False):
        super().__init__(size_average=size_average)
        self.averaged = size_average


class Detector(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.head = nn.Linear(features, classes)
        self.focal = FocalLoss(size_average=False)
        self.smooth = SumLoss(size_average=True)

    def forward(self, x, target):
        logits = self.head(x)
        return self.focal(logits, target), self.smooth(logits, F.one_hot(target, 3).float())


def build():
    torch.manual_seed(0)
    return Detector(4, 3), (torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0]))


def witnesses():
    """One row, a class that does not exist, and a target of the wrong length."""
    return [
        (torch.ones(1, 4), torch.tensor([2])),
        (torch.ones(1, 4), torch.tensor([3])),
        (torch.ones(2, 4), torch.tensor([1])),
    ]
