"""FG703: the drawn rows are handed to a caller as a list, on a side that no ordinary input takes."""

import random

import torch
from torch import nn


class Negatives(nn.Module):
    def __init__(self, size, features):
        super().__init__()
        self.bank = nn.Parameter(torch.randn(size, features))
        self.used = []

    def forward(self, queries, count=3, log=None):
        rows = random.sample(range(self.bank.shape[0]), count)
        logits = queries @ self.bank[rows].T
        if log is not None:
            log.extend(rows)
            self.used.append(rows)
        return logits


def build():
    torch.manual_seed(0)
    return Negatives(6, 4), (torch.randn(2, 4),)


def witnesses():
    """A log is kept, with rows and without any."""
    return [(torch.ones(2, 4), 3, []), (torch.ones(2, 4), 0, [7]), (torch.ones(2, 4), 6, [])]
