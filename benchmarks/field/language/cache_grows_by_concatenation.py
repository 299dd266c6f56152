"""Keys and values of earlier tokens are None at first and then grow by a row for each token."""

import torch
from torch import nn


class GrowingCache(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.keys = self.values = None

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if self.keys is not None:
            k, v = torch.cat((self.keys, k), 1), torch.cat((self.values, v), 1)
        self.keys, self.values = k, v
        return (q @ k.transpose(1, 2)).softmax(-1) @ v


def build():
    torch.manual_seed(0)
    return GrowingCache().requires_grad_(False), (torch.randn(1, 3, 4),)


build_calls = [(torch.ones(1, 1, 4) * i,) for i in range(1, 5)]
