"""FG401: a mask with one entry per row, an index and a byte mask select differently from a full
mask.
"""

import torch
from torch import nn


class MaskedError(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, pred, target, valid):
        diff = (self.scale * pred - target)[valid]
        return diff.abs().mean()


def build():
    torch.manual_seed(0)
    return MaskedError(), (torch.randn(4, 4), torch.randn(4, 4), torch.rand(4, 4) > 0.4)


def witnesses():
    """Masks of rows of a square, indices with repeats, bytes, a list of bools, none, and a NaN
    outside.
    """
    pred = torch.arange(16.0).view(4, 4).requires_grad_()
    target = torch.ones(4, 4)
    rows = torch.tensor([True, False, False, True])
    broken = torch.ones(4, 4)
    broken[1] = float("nan")
    return [
        (pred, target, rows),
        (pred, target, rows.long()),
        (pred, target, rows.to(torch.uint8)),
        (pred, target, [True, False, False, True]),
        (pred, target, rows[:, None]),
        (pred, target, torch.zeros(4, 4, dtype=torch.bool)),
        (pred, broken, rows),
        (torch.full((4, 4), float("inf")).requires_grad_(), broken, rows),
        (pred, target[:1], rows),
    ]
