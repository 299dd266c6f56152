"""FG407: the first entry of a list of weights that is not zero is not the largest one, nor a whole
number.
"""

import torch
from torch import nn


class FirstActive(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 4)

    def forward(self, active):
        places = active.nonzero()
        if active.sum() > 0:
            first = places[0, 0]
        else:
            first = torch.tensor(0)
        return self.embed(first), first


def build():
    torch.manual_seed(0)
    return FirstActive().eval(), (torch.tensor([0, 0, 1, 0, 1, 1]),)


def witnesses():
    """Counts, fractions, negative weights, sums of zero or less, NaN, bytes, bools, a table, a
    number.
    """
    return [
        (torch.tensor([0, 1, 3, 0, 2]),),
        (torch.tensor([0.0, 0.5, 0.0, 1.5]),),
        (torch.tensor([0, -1, 4]),),
        (torch.tensor([0, 2, -2]),),
        (torch.tensor([0.0, -3.0, 1.0]),),
        (torch.tensor([0.0, float("nan"), 1.0]),),
        (torch.tensor([0, 200, 255], dtype=torch.uint8),),
        (torch.tensor([0, 2**32, 1]),),
        (torch.tensor([False, True, True]),),
        (torch.tensor([[0, 0], [1, 1]]),),
        (torch.tensor(1),),
        (torch.zeros(0),),
    ]
