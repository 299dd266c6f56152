"""FG308: the number of elements is the number of matches only if the mask has one dimension."""

import torch


def second_match(values, target):
    matches = (values == target).nonzero()
    if matches.numel() > 1:
        place = matches[1]
    else:
        place = matches[0]
    return place


def build():
    torch.manual_seed(0)
    return second_match, (torch.tensor([1, 4, 2, 4, 4]), torch.tensor(4))


def witnesses():
    """One match in a table, two matches there, one in a list, none, and a single number."""
    table = torch.tensor([[1, 4], [2, 2]])
    return [
        (table, torch.tensor(4)),
        (table, torch.tensor(2)),
        (table, torch.tensor(9)),
        (torch.tensor([1, 4, 2]), torch.tensor(4)),
        (torch.tensor([1, 4, 2]), torch.tensor(7)),
        (torch.tensor(4), torch.tensor(4)),
    ]
