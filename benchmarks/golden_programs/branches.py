# ruff: noqa
"""Branches and loops on tensors: FG301 to FG306."""

import torch
from torch import nn

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


def early_return(x):
    if x.sum() == 0:
        return x * 0
    return x / x.sum()


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        if x.mean() > 0:
            y = self.a(x)
        else:
            y = self.b(x)
        return y * 2


def shrunk(x):
    while x.norm() > 1:
        x = x / 2
    return x


def doubled(x):
    for _ in range(10):
        x = x * 2
        if x.sum() > 100:
            break
    return x


def normalized(x):
    w = x.abs()
    total = float(w.sum())
    if total == 0:
        total = 1.0
    return w / total


def sampled(x, t):
    mean, sigma = x * 2, x.abs()
    if t > 0:
        return mean + sigma * torch.randn_like(x)
    return mean


def shrunk_without_gradient(x):
    x = x.detach()
    while x.norm() > 1:
        x = x / 2
    return x


PROGRAMS = (
    Program("FG301", early_return, inputs.vector),
    Program("FG302", TwoLayers, inputs.matrix),
    Program("FG303", shrunk, lambda: (inputs.vector()[0] * 8,)),
    Program("FG303", shrunk_without_gradient, lambda: (inputs.vector()[0] * 8,), "detached"),
    Program("FG304", doubled, inputs.vector),
    Program("FG305", normalized, inputs.vector),
    Program("FG306", sampled, lambda: (*inputs.vector(), torch.tensor(1))),
)
