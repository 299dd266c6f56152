"""FG602: switching the flag off on a result that asks for a gradient raises, and must go on raising."""

import torch
from torch import nn


class SoftMask(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, features)
        self.steps = 0

    def forward(self, x, scores):
        self.steps += 1
        mask = torch.sigmoid(scores * 4.0)
        mask.requires_grad = False
        return self.net(x) * mask


def build():
    torch.manual_seed(0)
    return SoftMask(4), (torch.randn(3, 4), torch.randn(3, 4))


def witnesses():
    """Scores that ask for a gradient, empty ones that do, and integers, which never do."""
    return [
        (torch.ones(3, 4), torch.ones(3, 4, requires_grad=True)),
        (torch.ones(0, 4), torch.ones(0, 4, requires_grad=True)),
        (torch.ones(3, 4), torch.ones(3, 4, dtype=torch.int64)),
    ]
