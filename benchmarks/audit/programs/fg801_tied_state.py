"""FG801: two entries of the state are tied, one is a list of both, and the copy is updated."""

import copy

import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        table = torch.ones(width)
        self.state = {"keys": table, "values": [torch.zeros(width), table], "step": 0, "name": None}

    def tie(self):
        self.state["values"][0] = self.state["keys"]

    def forward(self, x, tied=False):
        if tied:
            self.tie()
        state = copy.deepcopy(self.state)
        state["keys"].add_(x.mean(0))
        state["values"][0].sub_(1)
        state["step"] += 1
        return self.linear(x) * state["keys"] + state["values"][1], state["values"][0]


def build():
    torch.manual_seed(0)
    return Memory().eval(), (torch.randn(2, 4),)


def witnesses():
    """One tie of the constructor, and one more."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4),), (torch.randn(2, 4), True)]
