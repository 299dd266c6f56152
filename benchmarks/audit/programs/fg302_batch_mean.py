"""FG302: the branch that takes the mean of the batch has the shape of the other for a
batch of one alone."""

import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.local = nn.Linear(width, width)
        self.shared = nn.Linear(width, width)

    def forward(self, x):
        if x.std() > 0.5:
            y = self.local(x)
        else:
            y = self.shared(x.mean(dim=0, keepdim=True))
        return y.relu()


def build():
    torch.manual_seed(0)
    return Router(4).eval(), (torch.randn(1, 4),)


def witnesses():
    """Batches of three through both branches, and an empty one."""
    torch.manual_seed(1)
    return [(torch.randn(3, 4) * 4,), (torch.randn(3, 4) * 0.01,), (torch.randn(0, 4),)]
