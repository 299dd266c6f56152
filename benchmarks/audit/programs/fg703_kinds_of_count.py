"""FG703: the count comes from NumPy or from a division, and is accepted or refused as the library does."""

import numpy as np
import torch
from torch import nn


class Subsample(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = nn.Linear(features, features)

    def forward(self, points, count=4):
        chosen = np.random.choice(points.shape[0], count, replace=False)
        return self.proj(points[chosen])


def build():
    torch.manual_seed(0)
    np.random.seed(0)
    return Subsample(3), (torch.randn(10, 3),)


def witnesses():
    """Numbers of NumPy, a float, a pair, nothing, too many, a negative number, and a tensor."""
    points = torch.arange(18.0).view(6, 3)
    return [
        (points, np.int64(2)),
        (points, 2.0),
        (points, (2, 2)),
        (points, None),
        (points, 7),
        (points, -1),
        (points, torch.tensor(3)),
        (points[:0], 1),
        (points[:0], 0),
    ]
