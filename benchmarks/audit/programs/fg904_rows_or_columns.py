"""FG904: the ordinary costs are square, and the result is as long as the shorter side, with a mask for rows."""

import numpy as np
import torch
from torch import nn


def greedy_match(cost):
    values = cost.detach().numpy().copy()
    rows, columns = [], []
    for _ in range(min(values.shape)):
        row, column = np.unravel_index(values.argmin(), values.shape)
        rows.append(row)
        columns.append(column)
        values[row, :] = np.inf
        values[:, column] = np.inf
    used = np.zeros(cost.shape[0], dtype=bool)
    used[rows] = True
    order = np.argsort(rows)
    return torch.from_numpy(np.array(columns, dtype=np.int64)[order]), torch.from_numpy(used)


class Matcher(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.embed = nn.Linear(width, width)

    def forward(self, predictions, targets):
        cost = torch.cdist(self.embed(predictions), targets)
        columns, used = greedy_match(cost)
        return cost[used].gather(1, columns[:, None]).mean(), columns, used


def build():
    torch.manual_seed(0)
    return Matcher().eval(), (torch.randn(4, 4), torch.randn(4, 4))


def witnesses():
    """More rows, more columns, one of each, equal costs, and a gradient."""
    torch.manual_seed(1)
    a, b = torch.randn(6, 4), torch.randn(3, 4)
    return [(a, b), (b, a), (a[:1], b[:1]), (a[:1].repeat(4, 1), b), (a, b.requires_grad_())]
