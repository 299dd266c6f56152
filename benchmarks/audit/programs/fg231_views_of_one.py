"""FG231: the grids are views of one array, which is changed in place after they were taken."""

import numpy as np
import torch


def centred_grid(x, centre=False):
    h, w = x.shape
    grid = np.mgrid[0:h, 0:w]
    ys, xs = grid
    line = np.mgrid[0:w]
    if centre:
        grid -= h // 2
        line += 1
    weights = torch.from_numpy(ys * 2 + xs)
    return x * weights + torch.from_numpy(line), torch.from_numpy(grid)


def build():
    torch.manual_seed(0)
    return centred_grid, (torch.randn(3, 4),)


def witnesses():
    """Both are centred, one of them is empty."""
    return [(torch.ones(4, 2), True), (torch.ones(0, 3), True)]
