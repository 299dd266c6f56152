"""FG704: the size is drawn before the bound, from the same stream, and must go on being so."""

import random

import torch
from torch import nn


class FakeTokens(nn.Module):
    def __init__(self, vocabulary, features):
        super().__init__()
        self.vocabulary = vocabulary
        self.embed = nn.Embedding(vocabulary, features)

    def pick(self, low, high):
        return random.randint(low, high)

    def forward(self, x):
        tokens = torch.empty((self.pick(1, 6), 2), dtype=torch.int64).random_(
            self.pick(2, self.vocabulary)
        )
        noise = x.new_empty(len(x), 2).random_(5)
        return self.embed(tokens).mean(0), noise


def build():
    torch.manual_seed(0)
    return FakeTokens(30, 4), (torch.randn(3, 4),)


def witnesses():
    """Inputs of other dtypes and lengths."""
    return [
        (torch.ones(2, 4, dtype=torch.int64),),
        (torch.ones(0, 4, dtype=torch.float64),),
        (torch.ones(2, 4).half().requires_grad_(),),
        (torch.ones(2, 4, dtype=torch.bool),),
    ]
