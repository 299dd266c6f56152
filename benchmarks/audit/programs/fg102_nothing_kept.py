"""FG102: the inner test is an error of its own where nothing is kept, and is not evaluated."""

import torch
from torch import nn


class Selector(nn.Module):
    def __init__(self, limit=5.0):
        super().__init__()
        self.limit = limit
        self.weight = nn.Parameter(torch.tensor(1.5))

    def forward(self, scores, keep):
        if keep.any():
            if scores[keep].max() <= self.limit:
                scale = 2.0
            else:
                raise ValueError("a kept score is above the limit")
        else:
            scale = 0.0
        return scores * self.weight * scale


def build():
    torch.manual_seed(0)
    return Selector(), (torch.randn(5), torch.tensor([True, False, True, True, False]))


def witnesses():
    """Nothing kept (with and without a score above), and one kept above the limit."""
    scores = torch.tensor([1.0, 9.0, 2.0])
    return [
        (scores, torch.zeros(3, dtype=torch.bool)),
        (scores, torch.tensor([True, False, True])),
        (scores, torch.tensor([True, True, False])),
        (torch.tensor([float("nan"), 0.0]), torch.tensor([True, True])),
        (scores[:0], torch.zeros(0, dtype=torch.bool)),
    ]
