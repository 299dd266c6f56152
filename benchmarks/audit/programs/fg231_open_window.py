"""FG231: a window that is larger than the image makes the bounds of the open grid negative."""

import numpy as np
import torch
from torch import nn


class WindowBias(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window
        self.slope = nn.Parameter(torch.ones(()))

    def forward(self, x):
        h, w = x.shape[-2:]
        ys, xs = np.ogrid[1 : h - self.window, 0 : w - self.window : 2]
        rows, columns = np.mgrid[0 : h - self.window, 0 : w - 1]
        distance = torch.from_numpy(ys * 10 + xs)
        total = torch.from_numpy(rows - columns).sum()
        return x.sum() + self.slope * distance + total


def build():
    torch.manual_seed(0)
    return WindowBias(2), (torch.randn(1, 5, 6),)


def witnesses():
    """Images as large as the window, smaller than it, and of no columns."""
    return [(torch.ones(1, 2, 2),), (torch.ones(1, 1, 4),), (torch.ones(1, 4, 0),)]
