"""FG903: where no name is given, the helper takes the scale of the function that called it."""

import sys
import threading

import torch
from torch import nn


class Adapter(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.lock = threading.Lock()
        self.encoder = nn.Linear(width, width)
        self.scales = {"encode": 0.5, "decode": 2.0}

    def _scaled(self, x, name=None):
        if name is None:
            name = sys._getframe(1).f_code.co_name
        with self.lock:
            return torch.tanh(x) * self.scales.get(name, 1.0)

    def encode(self, x, name):
        return self._scaled(self.encoder(x), name)

    def decode(self, x, name):
        return self._scaled(x @ self.encoder.weight, name)

    def forward(self, x, first="encode", second="decode"):
        return self.decode(self.encode(x, first), second)


def build():
    torch.manual_seed(0)
    return Adapter().eval(), (torch.randn(2, 8),)


def witnesses():
    """No names, one name, and names that are exchanged."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x, None, None), (x, None, "decode"), (x, "decode", "encode"), (x, "other", None)]
