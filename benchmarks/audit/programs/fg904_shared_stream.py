"""FG904: the helper and its caller draw from one random stream, and each draw moves the other's."""

import random

import torch
from torch import nn


def sampled_rows(scores, count):
    rows = []
    for row, score in enumerate(scores.tolist()):
        if score > random.random():
            rows.append(row)
    random.shuffle(rows)
    return torch.tensor(rows[:count], dtype=torch.int64)


class Sampler(nn.Module):
    def __init__(self, width=8, count=3):
        super().__init__()
        self.score = nn.Linear(width, 1)
        self.count = count

    def forward(self, x, jitter=0.0):
        scores = self.score(x)[:, 0].sigmoid()
        rows = sampled_rows(scores.detach(), self.count)
        y = x[rows] * scores[rows, None]
        if jitter > 0:
            y = y * (1.0 + jitter * random.random())
        return y, rows


def build():
    torch.manual_seed(0)
    return Sampler().eval(), (torch.randn(6, 8),)


def witnesses():
    """With jitter, without, no rows, and a gradient."""
    torch.manual_seed(1)
    x = torch.randn(6, 8)
    return [(x, 0.5), (x, 0.0), (x[:0], 0.5), (x.clone().requires_grad_(), 0.5)]


def observe():
    return random.getstate()[1][-1]
