# ruff: noqa
"""Copies, contexts and generators of Python: FG801 to FG819."""

import copy
import threading
from contextlib import ExitStack

import torch
from torch import nn

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


class Copies(nn.Module):
    def __init__(self):
        super().__init__()
        self.options = {"scale": 2.0}

    def forward(self, x):
        features = [x, x + 1]
        start = copy.deepcopy(x)
        levels = copy.deepcopy(features)
        options = copy.copy(self.options)
        return start * options["scale"] + levels[1]


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.device = "cpu"

    def forward(self, x):
        n = x.shape[0]
        with torch.device(self.device):
            steps = torch.arange(n)  # one for each
            noise = torch.zeros(n, 4)
        return x * steps[:, None] + noise


class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.amp = True

    def forward(self, x):
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            if self.amp:
                stack.enter_context(torch.autocast("cpu"))
            y = self.net(x)
        return y * 2


LOCK = threading.Lock()


def locked(x):
    with LOCK:
        y = x * 2
    return y + 1


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            yield x


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.build(16)

    def build(self, n):
        self.longest = n
        self.register_buffer("cos", torch.outer(torch.arange(n), torch.rand(4)).cos())

    def forward(self, x, positions):
        n = positions.max() + 1
        if n > self.longest:
            self.build(n)
        return x * self.cos[positions]


PROGRAMS = (
    Program("FG801", Copies, inputs.matrix),
    Program("FG811", Steps, inputs.matrix),
    Program("FG812", Stacked, inputs.matrix),
    Program("FG813", locked, inputs.vector),
    Program("FG819", Blocks, inputs.matrix),
    Program("FG816", Rotary, lambda: (torch.randn(3, 4), torch.arange(3))),
)
