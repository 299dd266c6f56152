"""FG407: the second peak exists only where there are two, and the guard counts what another mask
has.
"""

import torch
from torch import nn


class PeakGap(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.1))
        self.found = 0

    def forward(self, signal, threshold):
        high = signal > threshold
        peaks = high.nonzero()
        if high.sum() >= 1:
            self.found += 1
            return self.scale * signal * peaks[0, 0]
        low = (signal < -threshold).nonzero()
        return self.scale * signal * low[1, 0]


def build():
    torch.manual_seed(0)
    return PeakGap(), (torch.tensor([0.1, 0.9, -0.8, 0.7, -0.9]), 0.5)


def witnesses():
    """Two low peaks and no high one, one low peak only, none, NaN, integers, doubles, and a table."""
    signal = torch.tensor([0.1, 0.3, -0.8, 0.2, -0.9])
    return [
        (signal.clone().requires_grad_(), 0.5),
        (signal, 0.85),
        (signal, 2.0),
        (signal, float("nan")),
        (torch.tensor([0, -3, 0, -3]), 1),
        (signal.double(), torch.tensor(0.5, dtype=torch.float64)),
        (signal, torch.tensor([0.5, 0.1, 0.5, 0.5, 0.5])),
        (torch.stack([signal, -signal]), 0.5),
        (torch.zeros(0), 0.5),
    ]
