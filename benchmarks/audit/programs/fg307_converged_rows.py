"""FG307: after all rows have converged no step runs, as its gradient would be NaN where a row is
zero.
"""

import torch
from torch import nn


class Shrink(nn.Module):
    def __init__(self, steps=4):
        super().__init__()
        self.steps = steps
        self.rate = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, tolerance):
        done = torch.zeros(len(x), dtype=torch.bool)
        for _ in range(self.steps):
            done = done | (x.norm(dim=1) < tolerance)
            if done.all():
                break
            unit = x / x.norm(dim=1, keepdim=True)
            x = torch.where(done[:, None], x, x - self.rate * unit)
        return x


def build():
    torch.manual_seed(0)
    return Shrink(), (torch.tensor([[0.54, 0.72], [0.12, 0.16]]), torch.tensor(0.3))


def witnesses():
    """Rows of zero, of which the first step has nothing to do, one that reaches zero, and no rows."""
    tolerance = torch.tensor(0.3)
    return [
        (torch.zeros(2, 2, requires_grad=True), tolerance),
        (torch.tensor([[0.5, 0.0], [0.0, 1.0]], requires_grad=True), tolerance),
        (torch.tensor([[0.1, 0.0], [0.0, 0.0]], requires_grad=True), torch.tensor(2.0)),
        (torch.zeros(0, 2), tolerance),
        (torch.tensor([[float("nan"), 1.0]]), tolerance),
    ]
