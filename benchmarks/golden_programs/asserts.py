# ruff: noqa
"""Checks that depend on a tensor's values: FG101 and FG102."""

import torch
from torch import nn

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


class CheckedEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4)

    def forward(self, x):
        h = self.encoder(x)
        if torch.isnan(h).any():
            raise ValueError(f"NaN after the encoder: {h}")
        return h


def checked_by_assert(x):
    h = x * 2
    assert not torch.isnan(h).any(), "NaN"
    return h + 1


def checked_by_raise(x):
    h = x * 2
    if torch.isnan(h).any():
        raise ValueError(f"NaN in {h}")
    return h + 1


PROGRAMS = (
    Program("FG101", CheckedEncoder, inputs.matrix),
    Program("FG102", checked_by_assert, inputs.matrix, "assert"),
    Program("FG102", checked_by_raise, inputs.matrix, "raise"),
)
