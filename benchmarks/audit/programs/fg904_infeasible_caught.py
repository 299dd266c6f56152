"""FG904: costs that are not finite raise in the helper, which the caller handles."""

import torch
from torch import nn


def row_order(cost, limit):
    values = cost.tolist()
    order = []
    for number, row in enumerate(values):
        if min(row) > limit:
            raise ValueError(f"row {number} has no column within {limit}")
        order.append(row.index(min(row)))
    return torch.tensor(order, dtype=torch.int64)


class Assigner(nn.Module):
    def __init__(self, width=4, limit=100.0):
        super().__init__()
        self.embed = nn.Linear(width, width)
        self.limit = limit
        self.failures = []

    def forward(self, x, targets):
        cost = torch.cdist(self.embed(x), targets).detach()
        try:
            columns = row_order(cost, self.limit)
        except ValueError as error:
            self.failures.append(str(error))
            columns = torch.full((x.shape[0],), -1)
        return targets[columns] - x, columns


def build():
    torch.manual_seed(0)
    return Assigner().eval(), (torch.randn(5, 4), torch.randn(3, 4))


def witnesses():
    """A row without a column, infinite rows, no columns, and rows that are not numbers."""
    torch.manual_seed(1)
    x, targets = torch.randn(5, 4), torch.randn(3, 4)
    far = x.clone()
    far[3] = 1e4
    return [
        (far, targets),
        (torch.full((2, 4), float("inf")), targets),
        (x, targets[:0]),
        (torch.full((2, 4), float("nan")), targets),
    ]
