"""FG604: `None` for both old arguments leaves `reduction=` in force, and a value overrules it."""

import torch
import torch.nn.functional as F
from torch import nn


class MixedLosses(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, features)
        self.per_item = nn.MSELoss(size_average=None, reduce=None, reduction="none")

    def forward(self, x, y):
        guess = self.net(x)
        total = F.l1_loss(guess, y, size_average=False, reduction="mean")
        plain = F.mse_loss(guess, y, size_average=None, reduction="sum")
        each = F.smooth_l1_loss(guess, y, size_average=True, reduce=False)
        mean = nn.L1Loss(reduce=True, reduction="none")(guess, y)
        return total, plain, each, mean, self.per_item(guess, y)


def build():
    torch.manual_seed(0)
    return MixedLosses(4), (torch.randn(3, 4), torch.randn(3, 4))


def witnesses():
    """A target that is broadcast, one without rows, and one of double precision that asks for a gradient."""
    return [
        (torch.ones(3, 4), torch.zeros(4)),
        (torch.ones(0, 4), torch.zeros(0, 4)),
        (torch.ones(3, 4), torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)),
    ]
