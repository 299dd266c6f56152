"""Augmentation by a Python random number, drawn anew in every call."""

import random

import torch
from torch import nn


class JitteredInput(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x):
        if self.training:
            x = x * (0.9 + 0.2 * random.random())
        return self.net(x)


def build():
    torch.manual_seed(0)
    return JitteredInput().train(), (torch.randn(3, 6),)
