"""FG703: the permutation is drawn from a stream that other draws share, for batches of any length."""

import numpy as np
import torch
from torch import nn


class ShuffledNorm(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = nn.Linear(features, features)
        self.register_buffer("order", torch.zeros(0, dtype=torch.int64))

    def forward(self, x):
        noise = torch.randn(x.shape[0], 1)
        order = torch.from_numpy(np.random.permutation(x.shape[0]))
        self.order = order
        shuffled = self.proj(x + noise)[order]
        x[order[:1]] = 0
        return shuffled, order


def build():
    torch.manual_seed(0)
    np.random.seed(0)
    return ShuffledNorm(4), (torch.randn(5, 4),)


def witnesses():
    """No row, one row, a leaf, the transpose of a matrix, and rows that share their memory."""
    return [
        (torch.ones(0, 4),),
        (torch.ones(1, 4),),
        (torch.ones(3, 4, requires_grad=True),),
        (torch.arange(12.0).view(4, 3).T,),
        (torch.ones(1, 4).expand(3, 4),),
    ]


def observe():
    return np.random.get_state()[2], torch.get_rng_state().sum().item()
