"""FG222: a pair that holds fractions becomes float32 in a tensor, whole numbers in it too."""

import torch
from torch import nn


class Anchor(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, 2)

    def forward(self, x, size):
        h, w = torch.tensor(size).tolist()
        boxes = self.proj(x).double()
        return torch.stack([boxes[..., 0] * h, boxes[..., 1] * w], dim=-1), h, w


def build():
    torch.manual_seed(0)
    return Anchor(4).eval(), (torch.randn(3, 4), (32, 48))


def witnesses():
    """Fractions, a fraction and an integer, bools, a tensor, and one number too many."""
    x = torch.ones(1, 4)
    return [
        (x, (0.1, 0.7)),
        (x, (0.5, 3)),
        (x, (True, 2)),
        (x, (2**24 + 1, 0.5)),
        (x, (1, 2, 3)),
    ]
