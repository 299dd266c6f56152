"""FG102: the number is joined to the text and kept in the exception, not formatted."""

import torch
from torch import nn


class MissingValues(ValueError):
    def __init__(self, where, count):
        super().__init__(where, count)
        self.count = count


class Imputer(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        missing = int(torch.isnan(x).sum())
        if missing:
            raise MissingValues("input", missing)
        h = self.linear(x)
        large = int((h.abs() > 100).sum())
        if large > 1:
            raise ValueError("large values: " + str(large))
        return torch.relu(h)


def build():
    torch.manual_seed(0)
    return Imputer().eval(), (torch.randn(3, 4),)


def witnesses():
    """Missing values, large values, and both."""
    nan = float("nan")
    return [
        (torch.tensor([[1.0, nan, nan, 2.0]]),),
        (torch.full((2, 4), 1e6),),
        (torch.tensor([[1e6, nan, 1e6, 1e6]]),),
    ]
