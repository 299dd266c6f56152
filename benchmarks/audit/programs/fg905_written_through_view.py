"""FG905: the helper writes through a view into the argument and into state that the caller reads next."""

import torch
from torch import nn


class Usage(nn.Module):
    def __init__(self, slots=4):
        super().__init__()
        self.register_buffer("used", torch.zeros(slots, dtype=torch.int64))
        self.recent = []
        self.total = 0

    @torch.no_grad()
    def _claim(self, row, taken):
        slot = int(row.argmax())
        level = row.max().item()
        self.used[slot] += 1
        self.total += slot
        self.recent.append(slot)
        taken[slot] = taken.get(slot, 0.0) + level
        row[slot] = -1.0
        return row

    def forward(self, scores, steps=1):
        scores = scores * 1.0 if scores.requires_grad else scores
        taken = {}
        for row in scores.view(-1, self.used.shape[0]):
            for _ in range(steps):
                rest = self._claim(row, taken)
        return scores * self.used + self.total, rest, taken, len(self.recent)


def build():
    torch.manual_seed(0)
    return Usage(), (torch.rand(2, 4),)


def witnesses():
    """Two claims of each row, more than there are slots, ties, one dimension, and a gradient."""
    torch.manual_seed(1)
    x = torch.rand(3, 4)
    return [(x, 2), (x, 6), (torch.ones(2, 4), 2), (x[0], 1), (x.clone().requires_grad_(), 2)]
