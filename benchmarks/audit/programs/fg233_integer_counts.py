"""FG233: the mean of integers, the median between two numbers, and a limit for a
tensor of integers."""

import numpy as np
import torch


def clip_counts(counts):
    a = counts.numpy()
    centre = float(np.median(a))
    average = np.mean(a).item()
    limit = np.percentile(a, 75).item()
    return (counts * average).clamp(max=limit) - centre


def build():
    torch.manual_seed(0)
    return clip_counts, (torch.rand(3, 5),)


def witnesses():
    """An even number of integers, one number without dimensions, half precision, NaN, and none."""
    return [
        (torch.tensor([1, 2, 7, 10]),),
        (torch.tensor(3.0),),
        (torch.full((3000,), 40.0, dtype=torch.float16),),
        (torch.tensor([200, 100], dtype=torch.uint8),),
        (torch.tensor([1.0, float("nan"), 3.0, 4.0]),),
        (torch.zeros(0),),
    ]
