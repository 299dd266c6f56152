"""FG410: a label of -1 has a center, the last one, and a label without center is an error."""

import torch
from torch import nn


class CenterLoss(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(classes, 3))

    def forward(self, x, labels):
        loss = x.new_zeros(())
        for c in labels.unique():
            loss = loss + (x[labels == c] - self.centers[c]).pow(2).mean()
        return loss


def build():
    torch.manual_seed(0)
    return CenterLoss(), (torch.randn(6, 3), torch.tensor([0, 2, 2, 0, 3, 2]))


def witnesses():
    """Labels of -1, of 4, of -5, floats, bools, bytes, NaN outside, no label, and labels for a
    table.
    """
    x = torch.linspace(-1, 1, 9).view(3, 3)
    broken = x.clone()
    broken[1] = float("inf")
    return [
        (x, torch.tensor([-1, 3, 0])),
        (x, torch.tensor([1, 4, 0])),
        (x, torch.tensor([-5, 1, 0])),
        (x, torch.tensor([1.0, 0.0, 2.0])),
        (x, torch.tensor([True, False, True])),
        (x, torch.tensor([1, 0, 1], dtype=torch.uint8)),
        (broken.requires_grad_(), torch.tensor([1, 0, 1])),
        (x[:0], torch.zeros(0, dtype=torch.int64)),
        (x, torch.tensor([1, 0])),
        (x.double(), torch.tensor([1, 1, 1])),
        (x, torch.tensor([[0, 1, 1], [2, 2, 0], [1, 0, 2]])),
    ]
