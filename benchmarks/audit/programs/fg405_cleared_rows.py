"""FG405: index_fill_ clears rows, while a mask of a square clears columns, and raises for a longer
table.
"""

import torch


def clear_padding(table, lengths, limit):
    short = torch.where(lengths < limit)[0]
    if short.numel() == 0:
        return table
    table = table * 2
    table.index_fill_(0, short, 0.0)
    return table


def build():
    torch.manual_seed(0)
    return clear_padding, (torch.rand(5), torch.tensor([4, 1, 0, 6, 2]), 2)


def witnesses():
    """A square, a longer table, a shorter one, integers, bools, nothing short, a leaf, a number, no
    row.
    """
    lengths = torch.tensor([4, 1, 0])
    return [
        (torch.ones(3, 3), lengths, 2),
        (torch.ones(3, 2, 2), lengths, 2),
        (torch.ones(5), lengths, 2),
        (torch.ones(2), lengths, 2),
        (torch.tensor([3, 4, 5]), lengths, 2),
        (torch.ones(3, dtype=torch.complex64), lengths, 2),
        (torch.ones(3), lengths, 0),
        (torch.tensor([float("nan"), float("inf"), 1.0], requires_grad=True), lengths, 2),
        (torch.tensor(2.0), torch.tensor([1]), 2),
        (torch.zeros(0), torch.zeros(0), 2),
        (torch.ones(2, 2), torch.tensor([[0, 5], [0, 5]]), 2),
    ]
