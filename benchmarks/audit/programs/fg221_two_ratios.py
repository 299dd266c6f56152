"""FG221: an array of sizes times a pair multiplies each by its own, and numbers it
repeats or fails."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Resize(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 2, 1)

    def forward(self, x, ratio):
        h, w = np.array(x.shape[-2:]) * ratio
        y = F.interpolate(self.conv(x), size=(int(h), int(w)))
        return y * (h / w)


def build():
    torch.manual_seed(0)
    return Resize(3).eval(), (torch.randn(1, 3, 4, 6), 2)


def witnesses():
    """A pair of ratios, as a tuple and as an array, and a fraction."""
    x = torch.ones(1, 3, 4, 6)
    return [(x, (1, 3)), (x, np.array([0.5, 1.5])), (x, 0.5)]
