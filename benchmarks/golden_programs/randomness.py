# ruff: noqa
"""Random numbers of Python and NumPy, and the clock: FG701 to FG704 and FG711."""

import random
import time

import numpy as np
import torch
from torch import nn

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


class DropPath(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = 10

    def forward(self, x, noise):
        y = x * 2
        if self.training and random.randrange(10) < self.p:
            y = y + noise
        return y


class Mixup(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = 0.4

    def forward(self, x):
        lam = np.random.beta(self.alpha, self.alpha)
        mixed = lam * x + (1 - lam) * x.flip(0)
        return mixed


class MaskedPatches(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = 2

    def forward(self, x):
        kept = torch.from_numpy(np.random.permutation(len(x))[: self.kept])
        return x[kept] * 2


class Cutoff(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = 4

    def forward(self, x):
        cutoff = torch.empty(len(x), 1, dtype=torch.int64).random_(1, self.levels)
        return x.clamp(max=cutoff)


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        start = time.time()
        return self.net(x), start


PROGRAMS = (
    Program("FG701", DropPath, inputs.pair),
    Program("FG702", Mixup, inputs.matrix),
    Program("FG703", MaskedPatches, inputs.matrix),
    Program("FG704", Cutoff, inputs.matrix),
    Program("FG711", Timed, inputs.matrix),
)
