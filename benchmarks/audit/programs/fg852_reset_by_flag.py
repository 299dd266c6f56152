"""FG852: a method that starts the count again, with a plain int, is called where a sequence begins."""

import torch
from torch import nn


class Positional(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.position = 0

    def reset(self, position=0):
        self.position = position

    def forward(self, x, begin=None):
        if begin is not None:
            self.reset(begin)
        self.position += 1
        return self.net(x) + 0.1 * self.position


def build():
    torch.manual_seed(0)
    return Positional().eval(), (torch.randn(2, 8),)


def witnesses():
    """A sequence that begins at once, one that begins later, and one at a fraction."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x, 0), (x, 1000), (x, 0.5), (x.requires_grad_(), None)]
