"""FG101: the limit is an int in ordinary calls, and a float, a bool, a tensor or a huge int too."""

import numpy as np
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, limit=10):
        peak = x.abs().max()
        if peak > limit:
            raise ValueError(f"peak {peak.item():.2f} is above {limit}")
        return torch.tanh(x * self.slope)


def build():
    torch.manual_seed(0)
    return Gate(), (torch.randn(3, 4), 10)


def witnesses():
    """Each passes or fails the check with another kind of limit."""
    x = torch.linspace(-2.0, 2.0, 6)
    return [
        (x, 1.5),
        (x, 2.5),
        (x, True),
        (x, torch.tensor(1.25)),
        (x, np.float32(0.5)),
        (x, np.int64(7)),
        (x * 1e21, 10**20),
        (x, float("nan")),
    ]
