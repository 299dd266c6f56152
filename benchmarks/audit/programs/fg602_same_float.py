"""FG602: `.float()` gives back a tensor of float32 itself, and then the flag of the argument is switched off."""

import torch
from torch import nn


class WeightedLoss(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, 1)

    def forward(self, x, weights):
        mask = weights.float()
        mask.requires_grad = False
        errors = self.net(x).squeeze(-1).square()
        return (errors * mask).sum() / mask.sum(), mask


def build():
    torch.manual_seed(0)
    return WeightedLoss(4), (torch.randn(3, 4), torch.tensor([1, 0, 1]))


def witnesses():
    """Weights of float32 that are a leaf, weights of double precision that are one, and plain ones."""
    return [
        (torch.ones(3, 4), torch.ones(3, requires_grad=True)),
        (torch.ones(3, 4), torch.ones(3, dtype=torch.float64, requires_grad=True)),
        (torch.ones(3, 4), torch.ones(3)),
    ]
