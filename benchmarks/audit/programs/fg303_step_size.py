"""FG303: the step is a Python number of double precision, and the multiplier one
without a limit."""

import torch


def descend(x, target):
    step = 0.1
    error = (x - target).abs().max()
    while error > 1e-3:
        x = x - step * 2 * (x - target)
        step *= 1.05
        error = (x - target).abs().max()
    return x


def build():
    torch.manual_seed(0)
    return descend, (torch.rand(4), torch.zeros(4))


def witnesses():
    """Doubles, whose digits show the step; integers; and a start at the target, which
    is returned itself."""
    start = torch.tensor([1.0, 0.7, 0.3, 0.9], dtype=torch.float64)
    return [
        (start, torch.zeros(4, dtype=torch.float64)),
        (torch.ones(4, dtype=torch.float64), torch.zeros(4)),
        (torch.ones(4), torch.ones(4)),
        (torch.tensor([1, 0]), torch.tensor([0, 1])),
    ]
