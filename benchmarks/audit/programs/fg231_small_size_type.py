"""FG231: bounds that are NumPy integers of 32 bits or bytes give a grid of their dtype."""

import numpy as np
import torch


def add_positions(x, size):
    h, w = size
    ys, xs = np.mgrid[0:h, 0:w]
    grid = torch.from_numpy(np.stack([ys, xs]))
    return torch.cat([x, grid[:, : x.shape[1], : x.shape[2]].to(x.dtype)]), grid * 100


def build():
    torch.manual_seed(0)
    return add_positions, (torch.randn(1, 3, 4), (3, 4))


def witnesses():
    """Sizes read from an array of int32, from one of bytes, and one that is a fraction."""
    x = torch.ones(1, 3, 4)
    return [
        (x, tuple(np.array([3, 4], dtype=np.int32))),
        (x, tuple(np.array([3, 4], dtype=np.uint8))),
        (x, (2.5, 4)),
    ]
