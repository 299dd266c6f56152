"""FG305: the smallest total is a Python number that half precision cannot hold."""

import torch


def normalise(w):
    total = float(w.sum())
    if total < 1e-8:
        total = 1e-8
    return w / total


def build():
    torch.manual_seed(0)
    return normalise, (torch.rand(3, 4),)


def witnesses():
    """Halves that sum to zero, to less, doubles, one number, NaN, integers, and none."""
    return [
        (torch.zeros(3, dtype=torch.float16),),
        (torch.tensor([1.0, -1.0, 0.5, -0.75], dtype=torch.float16),),
        (torch.zeros(3, dtype=torch.bfloat16),),
        (torch.full((3,), 1e-10, dtype=torch.float64),),
        (torch.tensor(0.0, dtype=torch.float16),),
        (torch.tensor([float("nan"), 1.0]),),
        (torch.tensor([0, 0]),),
        (torch.zeros(0, requires_grad=True),),
    ]
