"""FG404: the number of elements of the indices is the count times the dimensions of the mask."""

import torch


def average(values, weights):
    total = (values * weights).sum()
    return total / torch.nonzero(weights).numel(), total / torch.where(weights)[0].shape[0]


def build():
    torch.manual_seed(0)
    return average, (torch.rand(6), torch.tensor([1, 0, 1, 1, 0, 1], dtype=torch.bool))


def witnesses():
    """A table, a block, a single entry, no weight, weights that are integers or fractions, no
    value.
    """
    values = torch.linspace(0, 1, 12)
    return [
        (values.view(3, 4), (values > 0.4).view(3, 4)),
        (values.view(3, 2, 2), (values > 0.4).view(3, 2, 2)),
        (torch.tensor(2.0), torch.tensor(True)),
        (torch.tensor(2.0), torch.tensor(False)),
        (values, values > 2),
        (values, torch.arange(12) - 3),
        (values, (values - 0.5).requires_grad_()),
        (values[:0], values[:0] > 0),
    ]
