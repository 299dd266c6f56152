"""FG200: the table that is written may be the tensor of the indices, whose numbers
were taken before."""

import torch


def mark(visits, path, weight=2):
    for node in path.tolist():
        visits[node] = visits[node] * weight + 1
    return visits.clone(), path.sum()


def build():
    return mark, (torch.zeros(6, dtype=torch.int64), torch.tensor([5, 2, 0]))


def witnesses():
    """The path is the table itself, is a part of it, and crosses a node twice."""
    table = torch.tensor([1, 2, 0, -1, 3, 2])
    whole = torch.tensor([1, 2, 3, 0])
    return [
        (whole, whole, -1),
        (table, table[:3], -1),
        (torch.zeros(6, dtype=torch.int64), torch.tensor([1, 1, 4])),
    ]
