"""FG303: a faint signal needs a gain that no integer of 64 bits holds."""

import torch


def amplify(x):
    gain = 1
    while (x * gain).abs().max() < 1:
        gain *= 10
    return x * gain


def build():
    torch.manual_seed(0)
    return amplify, (torch.rand(5) * 0.01,)


def witnesses():
    """Gains of 10 ** 16, 10 ** 18 and 10 ** 21, one of 1, NaN, and bytes."""
    return [
        (torch.tensor([3e-16, 1e-17], dtype=torch.float64),),
        (torch.tensor([2e-18], dtype=torch.float64),),
        (torch.tensor([3e-21, -1e-22], dtype=torch.float64),),
        (torch.tensor([3.0, -1.0]),),
        (torch.tensor([float("nan")]),),
        (torch.tensor([3, 1], dtype=torch.uint8),),
    ]
