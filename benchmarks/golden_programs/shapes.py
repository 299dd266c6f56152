# ruff: noqa
"""Sizes that go through NumPy or through a tensor: FG221 and FG222."""

import numpy as np
import torch

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


def reshaped(x):
    rows = int(np.prod(x.shape[:-1]))
    half = int(np.ceil(x.shape[1] / 2))
    scale = 1 / np.sqrt(x.shape[-1])
    h, w = np.array(x.shape[-2:]) * 2
    y = x.reshape(rows, -1)[:, :half] * scale
    for i in np.arange(0, rows, 2):
        y = y + i
    return y * h + w


def sized(x):
    h, w = torch.tensor(x.size()[1:]).tolist()
    return x.reshape(-1, w) * h


PROGRAMS = (
    Program("FG221", reshaped, lambda: (torch.arange(24.0).reshape(2, 3, 4),)),
    Program("FG222", sized, lambda: (torch.arange(24.0).reshape(2, 3, 4),)),
)
