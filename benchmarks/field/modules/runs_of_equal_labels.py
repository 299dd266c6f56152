"""Greedy CTC output collapses runs of one label."""

import torch
from torch import nn


class CollapsedLabels(nn.Module):
    BLANK = 0

    def __init__(self, width: int = 6, labels: int = 4) -> None:
        super().__init__()
        self.head = nn.Linear(width, labels)

    def forward(self, frames):
        best = self.head(frames).argmax(-1)
        collapsed, counts = torch.unique_consecutive(best, return_counts=True)
        return collapsed[collapsed != self.BLANK], counts.max()


def build():
    torch.manual_seed(0)
    return CollapsedLabels(), (torch.randn(9, 6),)
