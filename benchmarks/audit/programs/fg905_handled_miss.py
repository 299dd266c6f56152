"""FG905: the helper raises where rows have no column, and the caller reads the rows off the error."""

import torch
from torch import nn


class Unmatched(LookupError):
    def __init__(self, rows):
        super().__init__(f"{len(rows)} rows without a column")
        self.rows = rows


class Tracker(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.misses = 0

    def _match(self, cost, limit):
        columns = cost.argmin(1).tolist()
        lowest = cost.amin(1).tolist()
        lost = [row for row, value in enumerate(lowest) if value > limit]
        if lost:
            self.misses += len(lost)
            raise Unmatched(lost)
        return torch.tensor(columns), cost.min().item()

    def forward(self, x, targets, limit=50.0):
        h = self.net(x)
        try:
            columns, lowest = self._match(torch.cdist(h, targets), limit)
        except Unmatched as error:
            h = h.index_fill(0, torch.tensor(error.rows), 0.0)
            return h * self.misses, error.rows
        else:
            return h + targets[columns], lowest
        finally:
            self.misses += 100


def build():
    torch.manual_seed(0)
    return Tracker().eval(), (torch.randn(3, 4), torch.randn(5, 4))


def witnesses():
    """Some rows lost, all of them, none, and no columns at all."""
    torch.manual_seed(1)
    x, targets = torch.randn(3, 4), torch.randn(5, 4)
    return [(x, targets, 1.1), (x, targets, 0.0), (x, targets), (x, targets[:0])]
