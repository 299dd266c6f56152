"""FG405: a head limits the norm of all its rows together, which no ordinary row is long enough to
reach.
"""

import torch
from torch import nn


class LimitedHead(nn.Module):
    def __init__(self, size, limit):
        super().__init__()
        self.project = nn.Linear(size, size)
        self.limit = limit

    def forward(self, x):
        h = self.project(x)
        return h * (self.limit / h.norm()).clamp(max=1.0)


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(LimitedHead(4, 20.0) for _ in range(3))

    def forward(self, x, levels):
        y = torch.zeros_like(x)
        for level, head in enumerate(self.heads):
            rows = torch.where(levels == level)[0]
            if rows.numel() == 0:
                continue
            y[rows] = head(x[rows])
        return y


def build():
    torch.manual_seed(0)
    return Pyramid().eval(), (torch.randn(6, 4), torch.tensor([0, 2, 2, 0, 0, 2]))


def witnesses():
    """Long rows of one level, rows of no level with NaN, no row, and levels as floats and as a
    table.
    """
    x = torch.linspace(-30, 30, 12).view(3, 4)
    broken = x.clone()
    broken[1] = float("nan")
    return [
        (x, torch.tensor([1, 0, 1])),
        (x.clone().requires_grad_(), torch.tensor([2, 2, 2])),
        (broken.requires_grad_(), torch.tensor([0, -1, 1])),
        (x, torch.tensor([1.0, 0.5, 1.0])),
        (x, torch.tensor([1])),
        (x[:0], torch.zeros(0, dtype=torch.int64)),
        (x.view(3, 2, 2), torch.tensor([0, 1, 0])),
        (x, torch.tensor([[1, 0], [0, 1]])),
    ]
