"""FG233: the number is taken from an array that shares memory with the tensor, before
that is changed in place."""

import numpy as np
import torch


def restore_level(wave, centre=False):
    samples = wave.numpy()
    first = samples[0].item()
    peak = np.max(samples).item()
    if centre:
        wave -= wave.mean()
        wave[0] = 0.0
    return wave / peak + first


def build():
    torch.manual_seed(0)
    return restore_level, (torch.randn(8),)


def witnesses():
    """Centred twice, one sample, NaN, none at all, and integers, of which the mean
    cannot be taken off."""
    return [
        (torch.arange(1.0, 6.0), True),
        (torch.tensor([3.0]), True),
        (torch.tensor([1.0, float("nan")]), False),
        (torch.zeros(0), False),
        (torch.tensor([2, 4], dtype=torch.int64), True),
    ]
