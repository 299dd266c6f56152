"""FG701: a weight made of the drawn number is a Python float, which keeps every dtype and all of its precision."""

import random

import torch
from torch import nn


class RandomResidual(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, x):
        step = random.randint(1, self.steps)
        if step > self.steps // 2:
            x = x + 0.5
        return x * (step / self.steps), x.mean() * step


def build():
    torch.manual_seed(0)
    return RandomResidual(7).eval(), (torch.randn(2, 4),)


def witnesses():
    """Double and half precision, with a dimension and without one, and integers."""
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    return [
        (third,),
        (third[0],),
        (torch.ones(3).half(),),
        (torch.tensor(0.3).half(),),
        (torch.ones(3, dtype=torch.bfloat16),),
        (torch.ones(3, dtype=torch.complex64),),
    ]
