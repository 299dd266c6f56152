"""FG602: `.contiguous()` and `.to()` copy some inputs and give back others, with their flag."""

import torch
from torch import nn


class Distiller(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.student = nn.Linear(features, features)

    def forward(self, x, teacher):
        target = teacher.contiguous()
        target.requires_grad = False
        gap = (self.student(x) - target).abs()
        return gap.mean(), teacher.requires_grad


def build():
    torch.manual_seed(0)
    return Distiller(4), (torch.randn(3, 4), torch.randn(4, 3).T)


def witnesses():
    """A leaf that is contiguous, and a parameter."""
    return [
        (torch.ones(3, 4), torch.ones(3, 4, requires_grad=True)),
        (torch.ones(3, 4), nn.Parameter(torch.ones(3, 4))),
        (torch.ones(3, 4), torch.ones(4, 3).T.requires_grad_()),
    ]
