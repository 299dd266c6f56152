"""A filter runs an operator of its own backward over time, from a copy of the signal."""

import torch
from torch import Tensor, nn


@torch.library.custom_op("reports::write_reversed", mutates_args=("target",))
def write_reversed(source: Tensor, target: Tensor) -> None:
    """Write `source` into `target`, last row first."""
    count = source.shape[0]
    for number in range(count):
        target[count - 1 - number] = source[number]


class Smooth(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.mix, self.gain = nn.Linear(channels, channels), nn.Parameter(torch.ones(channels))

    def forward(self, x):
        return torch.tanh(self.mix(x)) * self.gain


class TwoWayFilter(nn.Module):
    """Reverse a signal in place and smooth it twice."""

    def __init__(self, channels=3):
        super().__init__()
        self.forth, self.back = Smooth(channels), Smooth(channels)

    def forward(self, signal):
        before = signal.clone()
        write_reversed(before, signal)
        ahead = self.forth(signal)
        return self.back(ahead) + signal * 2.0


def build():
    torch.manual_seed(0)
    return TwoWayFilter().eval().requires_grad_(False), (torch.randn(8, 3),)
