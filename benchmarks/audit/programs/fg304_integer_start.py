"""FG304: an exit before the first assignment leaves the argument, of its own dtype, to
be changed in place."""

import torch


def halve(x, steps=4):
    for _ in range(steps):
        if x.abs().max() <= 1:
            break
        x = x / 2
    x.clamp_(min=0)
    return x


def build():
    torch.manual_seed(0)
    return halve, (torch.randn(3, 4) * 90,)


def witnesses():
    """Integers that are small and large, floats that are small, no steps, and NaN."""
    return [
        (torch.tensor([1, -1, 0]),),
        (torch.tensor([9, -3, 0]),),
        (torch.tensor([0.5, -0.5]),),
        (torch.tensor([7.0, -7.0]), 0),
        (torch.tensor([float("nan"), 2.0]), 2),
        (torch.tensor([1.5, -1.5], dtype=torch.float16), 1),
    ]
