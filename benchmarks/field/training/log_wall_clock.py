"""Stages of a model are timed while it runs."""

import time

import torch
from torch import nn


class TimedStages(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.seconds = [0.0, 0.0]

    def forward(self, x):
        for number, stage in enumerate(self.stages):
            start = time.time()
            x = stage(x).relu()
            self.seconds[number] += time.time() - start
        return x


def build():
    torch.manual_seed(0)
    return TimedStages(), (torch.randn(3, 6),)
