"""Positions are hashed with a large odd number, and their hashes are features of a token."""

import torch
from torch import nn
from torch.nn import functional as F


class HashedPositions(nn.Module):
    """A pseudo-random number for each position, the same for every sentence."""

    def __init__(self, width, buckets=97):
        super().__init__()
        self.buckets, self.out = buckets, nn.Linear(1, width)
        self.register_buffer("offset", torch.tensor([12345]))

    def forward(self, length):
        places = torch.arange(length, dtype=torch.int64) * torch.tensor([1500000001])
        hashes = (places + self.offset) % self.buckets
        return self.out(hashes.float().unsqueeze(-1) / self.buckets)


class Model(nn.Module):
    def __init__(self, vocabulary=30, width=8):
        super().__init__()
        self.embed, self.places = nn.Embedding(vocabulary, width), HashedPositions(width)
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 2 * width)
        self.down, self.head = nn.Linear(2 * width, width), nn.Linear(width, 3)

    def forward(self, tokens):
        x = self.norm(self.embed(tokens) + self.places(tokens.shape[1]))
        x = x + self.down(F.gelu(self.up(x)))
        return self.head(x).log_softmax(-1)


def build():
    torch.manual_seed(0)
    return Model().eval().requires_grad_(False), (torch.arange(18).reshape(2, 9),)
