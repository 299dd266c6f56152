"""FG702: mixup returns its weight to the training loop as a Python float, and the sides of labels keep their dtype."""

import numpy as np
import torch
from torch import nn


class Mixup(nn.Module):
    def __init__(self, alpha, features):
        super().__init__()
        self.alpha = alpha
        self.net = nn.Linear(features, 3)
        self.weights = []

    def forward(self, x, y, give_weight=False):
        lam = np.random.beta(self.alpha, self.alpha)
        order = torch.arange(x.shape[0] - 1, -1, -1)
        mixed = lam * x + (1 - lam) * x[order]
        if give_weight:
            self.weights.append(lam)
            return self.net(mixed.float()), y, y[order], lam
        return self.net(mixed.float()), lam * y + (1 - lam) * y[order]


def build():
    torch.manual_seed(0)
    np.random.seed(0)
    return Mixup(0.4, 4), (torch.randn(3, 4), torch.rand(3))


def witnesses():
    """The weight is asked for; labels of integers, of half and of double precision; and no row."""
    x = torch.arange(12.0).view(3, 4)
    return [
        (x, torch.tensor([0, 1, 2]), True),
        (x, torch.tensor([0, 1, 2])),
        (x, torch.ones(3).half()),
        (x.double(), torch.ones(3, dtype=torch.float64)),
        (x.half(), torch.ones(3, dtype=torch.bool)),
        (torch.ones(0, 4), torch.ones(0)),
    ]
