"""FG232: np.ndindex raises where a window is larger than the image, and range gives nothing."""

import numpy as np
import torch
from torch import nn


class SlidingMean(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, image):
        h = image.shape[0] - self.window + 1
        w = image.shape[1] - self.window + 1
        total = image.new_zeros(())
        for i, j in np.ndindex(h, w):
            total = total + image[i : i + self.window, j : j + self.window].max() * (i - j)
        return total * self.gain


def build():
    torch.manual_seed(0)
    return SlidingMean(2), (torch.randn(3, 4),)


def witnesses():
    """An image smaller than the window in both directions, in one, and just too small."""
    return [(torch.ones(0, 0),), (torch.ones(5, 0),), (torch.ones(1, 4),), (torch.ones(2, 2),)]
