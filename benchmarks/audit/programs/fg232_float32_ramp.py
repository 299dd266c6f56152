"""FG232: np.select takes the dtype of all choices together, and nested np.where one
pair at a time."""

import numpy as np
import torch


def hard_ramp(signal):
    a = signal.numpy()
    y = np.select([a < 0, a > 1, a > 0.5], [a * 0.1, 1.0, 0.5], 0.0)
    return torch.from_numpy(y) - signal


def build():
    torch.manual_seed(0)
    return hard_ramp, (torch.randn(3, 4, dtype=torch.float64),)


def witnesses():
    """Single and half precision, integers, a number without dimensions, and NaN."""
    values = torch.tensor([-2.0, 0.25, 0.75, 3.0])
    return [
        (values,),
        (values.half(),),
        (values.int(),),
        (torch.tensor(0.75, dtype=torch.float64),),
        (torch.tensor([float("nan"), float("inf")], dtype=torch.float64),),
    ]
