"""FG114: trange is a function of this module, which counts down and takes a first number."""

import torch
from torch import nn
from tqdm import tqdm


def trange(steps, first=0, **options):
    return tqdm(range(steps - 1, first - 1, -1), **options)


class Sampler(nn.Module):
    def __init__(self, width=4, steps=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.steps = steps

    def forward(self, x, first=0):
        for i in trange(self.steps, first, leave=False, disable=None):
            x = x - self.linear(x) * (i + 1) / self.steps
        return x


def build():
    torch.manual_seed(0)
    return Sampler().eval(), (torch.randn(2, 4),)


def witnesses():
    """All steps, the later ones, and none."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x,), (x, 2), (x, 4)]
