"""FG402: a column of predictions broadcasts against a row of targets: every pair that is selected
counts.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 1)

    def forward(self, x, target, valid):
        pred = self.head(x)
        return F.l1_loss(pred[valid], target[valid]) + F.mse_loss(pred[valid], target[valid])


def build():
    torch.manual_seed(0)
    valid = torch.tensor([True, True, False, True, False])
    return Regressor(), (torch.randn(5, 4), torch.randn(5, 1), valid)


def witnesses():
    """A column against a row, of a square, doubles, no valid entry, indices, and a NaN outside."""
    x = torch.linspace(-1, 1, 12).view(3, 4)
    valid = torch.tensor([True, False, True])
    target = torch.tensor([0.5, float("nan"), 2.0])
    return [
        (x, torch.tensor([0.5, 1.0, 2.0]), valid),
        (x, target.requires_grad_(), valid),
        (x, target.detach().clone()[:, None].requires_grad_(), valid),
        (x, torch.ones(3, 3), valid),
        (x, torch.ones(3, 1, dtype=torch.float64), valid),
        (x, torch.ones(3), torch.zeros(3, dtype=torch.bool)),
        (x, torch.ones(3, 1), torch.tensor([0, 0, 2])),
        (x, torch.ones(3, 1), valid[:, None]),
        (x, torch.ones(3, 1, dtype=torch.int64), valid),
    ]
