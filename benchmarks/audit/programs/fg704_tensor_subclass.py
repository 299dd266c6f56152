"""FG704: `new_empty` and `empty_like` of a tensor of a class of its own are of that class."""

import torch
from torch import nn


class Heatmap(torch.Tensor):
    def peak(self):
        return self.amax()


class Jitter(nn.Module):
    def __init__(self, strength):
        super().__init__()
        self.strength = strength

    def forward(self, x):
        offsets = x.new_empty(len(x), 2).random_(self.strength)
        marks = torch.empty_like(x).random_(self.strength)
        return offsets, marks


def build():
    torch.manual_seed(0)
    return Jitter(5), (torch.randn(3, 4),)


def witnesses():
    """A heatmap, a parameter, channels last, every second column, an expanded row, and complex numbers."""
    return [
        (torch.ones(3, 4).as_subclass(Heatmap),),
        (nn.Parameter(torch.ones(3, 4)),),
        (torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),),
        (torch.ones(3, 8)[:, ::2],),
        (torch.ones(1, 4).expand(3, 4),),
        (torch.ones(3, 4).T,),
        (torch.ones(3, 4, dtype=torch.complex64),),
    ]
