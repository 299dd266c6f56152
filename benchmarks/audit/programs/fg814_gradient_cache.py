"""FG814: gc is an object of the program in one function, whose collect joins its chunks."""

import gc

import torch
from torch import nn


class GradientCache:
    def __init__(self):
        self.chunks = []
        self.joined = None

    def collect(self):
        self.joined = torch.cat(self.chunks)
        self.chunks.clear()


class Chunked(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)

    def join(self, parts, gc):
        gc.chunks.extend(parts)
        if len(gc.chunks) > 1:
            gc.collect()
        return gc.joined if gc.joined is not None else parts[0]

    def forward(self, x, chunks=1):
        parts = [torch.tanh(self.net(part)) for part in x.chunk(chunks)]
        gc.collect()
        return self.join(parts, GradientCache())


def build():
    torch.manual_seed(0)
    return Chunked().eval(), (torch.randn(4, 4), 2)


def witnesses():
    """One chunk, and more."""
    torch.manual_seed(1)
    x = torch.randn(4, 4)
    return [(x, 1), (x, 2), (x, 4)]
