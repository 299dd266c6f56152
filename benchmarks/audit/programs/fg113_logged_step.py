"""FG113: the argument of the logger advances a counter and smooths a buffer that are used."""

import logging

import torch
from torch import nn

logger = logging.getLogger("audit.average")
logger.setLevel(logging.INFO)


class Average(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.step = 0

    def advance(self):
        self.step += 1
        return self.step

    def forward(self, x):
        logger.info("step %d", self.advance())
        logger.info("mean %s", self.mean.lerp_(x.mean(0), 1 / self.step).norm().item())
        return (x - self.mean) / self.step


def build():
    torch.manual_seed(0)
    return Average(), (torch.randn(3, 4),)


def witnesses():
    """Two steps each."""
    torch.manual_seed(1)
    return [(torch.randn(3, 4),), (torch.randn(1, 4) * 9,)]
