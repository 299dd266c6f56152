# ruff: noqa
"""What only a setting of the compiler helps: FG901."""

import torch
from torch import nn

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4)

    def forward(self, x):
        y = self.rnn(x)[0]
        return y * 2


def selected(x):
    z = x[x > 0]
    return z * 2


PROGRAMS = (
    Program("FG901", Recurrent, lambda: (torch.rand(2, 3, 4),), "rnn"),
    Program("FG901", selected, inputs.matrix, "mask"),
)
