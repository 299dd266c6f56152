"""FG406: places are integers as long as each row has one; a row that has none makes them floats."""

import torch
from torch import nn


class Onsets(nn.Module):
    def __init__(self, rate=100):
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor(0.5), requires_grad=False)
        self.rate = rate

    def forward(self, energy):
        onsets = []
        for row in energy:
            loud = (row > self.threshold).nonzero()
            if len(loud) > 0:
                onsets.append(loud[0, 0])
            else:
                onsets.append(torch.tensor(float("nan")))
        return torch.stack(onsets)


def build():
    torch.manual_seed(0)
    energy = torch.rand(5, 8)
    energy[2] = 0.1
    return Onsets().eval(), (energy,)


def witnesses():
    """Every row is loud, none is, one is, a single row of each kind, integers, and bools."""
    loud = torch.tensor([[0.1, 0.9, 0.8], [0.7, 0.1, 0.1]])
    return [
        (loud,),
        (loud - 1,),
        (loud - 0.25,),
        (loud[:1],),
        (loud[:1] - 1,),
        (loud.double(),),
        (torch.tensor([[0, 0, 2], [1, 0, 0]]),),
        (loud > 0.5,),
        (loud.t(),),
    ]
