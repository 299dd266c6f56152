"""FG308: the third peak or else the first one is no end of a slice: of two peaks it is the first."""

import torch
from torch import nn


class PeakFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(2, 3)

    def forward(self, signal, threshold):
        peaks = torch.where(signal > threshold)[0]
        chosen = peaks[2] if len(peaks) > 2 else peaks[0]
        latest = peaks[2] if peaks.shape[0] > 2 else peaks[-1]
        return self.project(torch.stack([signal[chosen], signal[latest]])), chosen


def build():
    torch.manual_seed(0)
    return PeakFeatures().eval(), (torch.tensor([0.1, 0.9, 0.8, 0.2, 0.7, 0.6]), 0.5)


def witnesses():
    """No peak, one, two, three, four, six, and no sample."""
    signal = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    return [
        (signal, 0.65),
        (signal, 0.55),
        (signal, 0.45),
        (signal, 0.35),
        (signal, 0.25),
        (signal, 0.0),
        (torch.zeros(0), 0.0),
    ]
