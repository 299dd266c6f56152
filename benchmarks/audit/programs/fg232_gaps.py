"""FG232: sums that pass over NaN, of rows of nothing but NaN, of infinities, and of
other dtypes."""

import numpy as np
import torch


def row_summary(series):
    x = series.numpy()
    total = np.nansum(x, axis=1)
    average = np.nanmean(x, axis=1)
    return torch.from_numpy(total), torch.from_numpy(average)


def build():
    torch.manual_seed(0)
    series = torch.randn(3, 4)
    series[0, 1] = float("nan")
    return row_summary, (series,)


def witnesses():
    """A row of NaN, infinities, half precision, bools, bytes, no columns, and complex numbers."""
    nan, inf = float("nan"), float("inf")
    return [
        (torch.tensor([[nan, nan], [1.0, nan]]),),
        (torch.tensor([[inf, nan], [inf, -inf]]),),
        (torch.full((1, 40), 3000.0, dtype=torch.float16),),
        (torch.tensor([[True, True, False]]),),
        (torch.tensor([[200, 100]], dtype=torch.uint8),),
        (torch.zeros(2, 0),),
        (torch.tensor([[1 + 2j, complex(nan, 1.0)]]),),
    ]
