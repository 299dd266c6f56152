"""FG201: Python's max(1.0, nan) is 1.0 and max(nan, 1.0) is nan, and clamp always gives nan."""

import torch
from torch import nn


class PeakNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x, mask):
        peak = max(1.0, x.abs().max().item())
        floor = min(0.5, x.abs().min().item())
        y = self.proj(torch.nan_to_num(x) / peak) + floor
        return y.sum() / max(1, mask.sum().item())


def build():
    torch.manual_seed(0)
    return PeakNorm(4).eval(), (torch.randn(3, 4) * 2, torch.tensor([True, True, False]))


def witnesses():
    """A NaN, an infinity, and an empty mask."""
    broken = torch.tensor([[1.0, float("nan"), 3.0, -2.0]])
    endless = torch.tensor([[1.0, float("inf"), 3.0, -2.0]])
    return [
        (broken, torch.tensor([True])),
        (endless, torch.tensor([True])),
        (torch.zeros(1, 4, requires_grad=True), torch.tensor([False])),
    ]
