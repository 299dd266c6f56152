"""FG232: np.select takes conditions of bools alone, and broadcasts all conditions and
choices together."""

import numpy as np
import torch


def fill(values, missing, capped):
    x = values.numpy()
    y = np.select([missing.numpy(), capped.numpy()], [np.zeros_like(x), np.ones_like(x)], x)
    return torch.from_numpy(y)


def build():
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    return fill, (x, x < 0, x > 1)


def witnesses():
    """Masks that are numbers, masks of a row and a column, of no dimensions, and both
    true at once."""
    x = torch.arange(12.0).reshape(3, 4)
    return [
        (x, torch.ones(3, 4, dtype=torch.int64), x > 1),
        (x, x < 0, torch.full((3, 4), 0.5)),
        (x[0], x[0] < 2, x[:, :1] > 3),
        (x, torch.tensor(True), x > 1),
        (x, torch.zeros(3, 4, dtype=torch.uint8), x > 1),
        (x, x > 2, x > 3),
    ]
