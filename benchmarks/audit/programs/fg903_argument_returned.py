"""FG903: for a gain of one the helper returns its argument, which the caller then changes in place."""

import threading

import torch
from torch import nn


class Gain(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.lock = threading.Lock()
        self.register_buffer("offset", torch.linspace(-1, 1, width))

    def _amplified(self, x, gain, channels):
        with self.lock:
            if channels is not None:
                x = x[:, :channels]
            if gain == 1:
                return x
            return x * gain

    def forward(self, x, gain=2.0, channels=None):
        y = self._amplified(x, gain, channels)
        y.add_(self.offset[: y.shape[1]])
        return y


def build():
    torch.manual_seed(0)
    return Gain().eval(), (torch.randn(2, 8),)


def witnesses():
    """The argument, a view of it, a gain that is True, and a copy."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x, 1.0), (x, 1, 3), (x, True, 8), (x, 0.5, 3)]
