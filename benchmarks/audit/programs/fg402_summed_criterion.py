"""FG402: the criterion is switched to sums while the program runs, and stays so for the next call."""

import torch
from torch import nn


class DepthLoss(nn.Module):
    def __init__(self, beta=0.5):
        super().__init__()
        self.criterion = nn.SmoothL1Loss(reduction="mean", beta=beta)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, pred, target, per_scene=False):
        valid = target > 0
        loss = self.criterion(self.scale * pred[valid], target[valid])
        if per_scene:
            self.criterion.reduction = "sum"
        return loss


def build():
    torch.manual_seed(0)
    return DepthLoss(), (torch.rand(2, 4, 4), torch.rand(2, 4, 4) - 0.2)


def witnesses():
    """Sums from the second call on, with means before, no valid pixel, another dtype, and NaN
    outside.
    """
    pred = torch.linspace(0, 2, 16).view(4, 4).requires_grad_()
    target = torch.linspace(-1, 3, 16).view(4, 4)
    missing = torch.where(target > 0, target, float("nan"))
    return [
        (pred, target, True),
        (pred, target),
        (pred, -torch.ones(4, 4), True),
        (pred, -torch.ones(4, 4)),
        (pred, missing.requires_grad_()),
        (pred, target.double()),
        (torch.full((4, 4), float("nan")).requires_grad_(), missing.detach().clone()),
    ]
