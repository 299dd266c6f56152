"""Decoder layers write keys into their cache at a position that is kept as a tensor."""

import torch
from torch import nn


class CachedLayer(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.k, self.v, self.q = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, keys, values, filled):
        at, count = filled.max(), x.shape[1]
        keys[:, at : at + count] = self.k(x)
        values[:, at : at + count] = self.v(x)
        seen = torch.arange(keys.shape[1]) < at + count
        scores = (self.q(x) @ keys.transpose(1, 2)).masked_fill(~seen, float("-inf"))
        return scores.softmax(-1) @ values


def build():
    torch.manual_seed(0)
    caches = torch.zeros(2, 12, 8), torch.zeros(2, 12, 8)
    layer = CachedLayer().requires_grad_(False)
    return layer, (torch.randn(2, 2, 8), *caches, torch.tensor([3, 3]))
