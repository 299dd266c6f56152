"""FG221: the powers of two of NumPy's integers wrap at 2 ** 63, and those of Python's do not."""

import numpy as np
import torch
from torch import nn


class FourierFeatures(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x, octaves=4):
        features = [x]
        for i in np.arange(0, octaves):
            features.append(torch.sin(x * 2**i))
            features.append(torch.cos(x * 2**i))
        return torch.cat(features, dim=-1)[..., -self.width :]


def build():
    torch.manual_seed(0)
    return FourierFeatures(6), (torch.rand(2, 3), 4)


def witnesses():
    """Octaves past the range of an integer, none, a negative number of them, and a fraction."""
    x = torch.tensor([[0.25, 0.5, 1.0]])
    return [(x, 66), (x, 0), (x, -2), (x, 2.5)]
