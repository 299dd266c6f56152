"""FG305: one divided by a Python zero raises, and a branch turns only negative totals around."""

import torch
from torch import nn


class Balanced(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x, w):
        total = float(w.sum())
        if total < 0:
            total = -total
        factor = 1.0 / total
        return self.proj(x) * factor + total**0.5


def build():
    torch.manual_seed(0)
    return Balanced(4).eval(), (torch.randn(2, 4), torch.rand(4))


def witnesses():
    """A total of zero, of minus zero, a negative one, NaN, and one of integers."""
    x = torch.ones(1, 4)
    return [
        (x, torch.tensor([1.0, -1.0])),
        (x, torch.tensor([-0.0])),
        (x, torch.tensor([-3.0], requires_grad=True)),
        (x, torch.tensor([float("nan")])),
        (x, torch.tensor([2, 3])),
    ]
