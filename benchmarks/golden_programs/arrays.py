# ruff: noqa
"""NumPy functions that Dynamo does not trace: FG231, FG232, FG233 and FG239."""

import numpy as np
import torch

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


def grids(x):
    h, w = x.shape
    ys, xs = np.mgrid[0:h, 0:w]
    rows, columns = np.ogrid[1:h, 0:w:2]
    y = x * torch.from_numpy(ys) + torch.from_numpy(xs)
    return y.sum() + torch.from_numpy(rows).sum() + torch.from_numpy(columns).sum()


def selected(t):
    x = t.numpy()
    a, b = x * 2, x - 1
    y = np.select([x < 0, x > 1], [a, b], x)
    total = np.nansum(x, axis=1)
    return torch.from_numpy(y), torch.from_numpy(total)


def indexed(x):
    total = 0
    for i, j in np.ndindex(2, 2):
        total = total + x[i, j]
    return total


def scaled(x):
    scale = float(np.mean(x.detach().cpu().numpy()))
    limit = np.percentile(x.numpy(), 95).item()
    return (x * scale).clamp(max=limit)


def curve(v):
    return v * v + 1


def tabulated(x):
    scale = np.vectorize(curve)(x.numpy())
    table = np.interp([0.5, 1.5], [0.0, 1.0, 2.0], [1.0, 2.0, 4.0])
    return torch.from_numpy(scale) + torch.from_numpy(table).sum()


PROGRAMS = (
    Program("FG231", grids, lambda: (torch.ones(3, 4),)),
    Program("FG232", selected, inputs.matrix, "select"),
    Program("FG232", indexed, inputs.matrix, "ndindex"),
    Program("FG233", scaled, inputs.matrix),
    Program("FG239", tabulated, inputs.matrix),
)
