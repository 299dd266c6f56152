"""FG701: the drawn level is returned and kept on the module as a Python number, and must stay one."""

import random

import torch
from torch import nn


class SliceDropout(nn.Module):
    def __init__(self, levels):
        super().__init__()
        self.levels = levels
        self.scale = nn.Parameter(torch.ones(4))
        self.last = 0

    def forward(self, y, report=False):
        keep = random.randrange(1, self.levels)
        for level in range(self.levels):
            if level > keep:
                y = y * self.scale
        if report:
            self.last = keep
            return y, keep, keep / self.levels
        return y


def build():
    torch.manual_seed(0)
    return SliceDropout(10), (torch.randn(2, 4),)


def witnesses():
    """The report is asked for, also for an input that asks for a gradient."""
    return [(torch.ones(2, 4), True), (torch.ones(2, 4, requires_grad=True), True)]
