"""FG411: positions of two dimensions or none must raise as `torch.combinations` does, and not be paired by rows."""

import torch
from torch import nn


class PairEnergy(nn.Module):
    def __init__(self):
        super().__init__()
        self.coupling = nn.Parameter(torch.tensor(0.5))

    def forward(self, charges):
        pairs = torch.combinations(charges, with_replacement=True)
        return self.coupling * pairs.prod(dim=-1)


def build():
    torch.manual_seed(0)
    return PairEnergy().eval(), (torch.randn(5),)


def witnesses():
    """A batch of charges, a square batch, and one charge without a dimension."""
    return [(torch.ones(3, 4),), (torch.ones(2, 2),), (torch.tensor(2.0),)]
