"""Reversible attention remembers a seed so that the backward pass draws the same dropout."""

import sys

import torch
from torch import nn


class HashedAttention(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.project = nn.Linear(width, width)
        self.seed = None

    def _remember_seed(self):
        self.seed = int(torch.initial_seed() % sys.maxsize)
        torch.manual_seed(self.seed)

    def forward(self, x):
        self._remember_seed()
        scores = torch.nn.functional.dropout(self.project(x) @ x.transpose(1, 2), 0.2)
        return scores.softmax(-1) @ x


def build():
    torch.manual_seed(0)
    return HashedAttention().train(), (torch.randn(2, 4, 8),)
