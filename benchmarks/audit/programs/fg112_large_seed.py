"""FG112: the seed that is logged may be larger than 64 bits hold, or another kind of number."""

import logging

import numpy as np
import torch
from torch import nn

logger = logging.getLogger("audit.noise")
logger.setLevel(logging.INFO)


class Noise(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x, seed):
        h = x * self.scale + (seed % 97) / 97
        if h.abs().max() > 2:
            logger.info("seed %s: peak %.3f", seed, h.abs().max().item())
        print(f"seed {seed!r}", list(h.shape), f"{h.mean().item():.3f}")
        return h


def build():
    torch.manual_seed(0)
    return Noise(), (torch.randn(2, 4), 1234)


def witnesses():
    """Seeds at and above 2**63, negative ones, and other kinds of numbers."""
    x = torch.full((2, 4), 3.0)
    seeds = (2**63 - 1, 2**63, 2**70 + 1, -5, True, 1.5, np.int64(7), np.uint64(2**63 + 3))
    return [(x, seed) for seed in seeds]
