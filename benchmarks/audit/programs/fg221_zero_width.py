"""FG221: NumPy divides by a size of zero with a warning and gives inf, and Python raises."""

import numpy as np
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def forward(self, q, k, v):
        scale = 1 / np.sqrt(q.shape[-1])
        gain = np.log(k.shape[-2]) / np.log(self.length)
        weights = (q @ k.transpose(-1, -2) * scale * gain).softmax(dim=-1)
        return weights @ v


def build():
    torch.manual_seed(0)
    return Attention(16), (torch.randn(2, 5, 4), torch.randn(2, 6, 4), torch.randn(2, 6, 4))


def witnesses():
    """Heads of no width, and no keys."""
    return [
        (torch.ones(2, 5, 0), torch.ones(2, 6, 0), torch.ones(2, 6, 3)),
        (torch.ones(2, 5, 4), torch.ones(2, 0, 4), torch.ones(2, 0, 4)),
    ]
