"""Constraint propagation in NumPy goes on while exactly one candidate is left."""

import numpy as np
import torch
from torch import nn


class CandidateFilter(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.score = nn.Linear(width, width)

    def forward(self, x):
        logits = self.score(x)
        rows = logits.detach().numpy() > 0
        total = 0
        for row in rows:
            if np.count_nonzero(row) < 2:
                total += int(row.sum())
        return logits.softmax(-1) + total


def build():
    torch.manual_seed(0)
    return CandidateFilter(), (torch.randn(4, 6),)
