"""FG813: the table of guards holds a lock for one mode and no_grad for the other."""

import threading

import torch
from torch import nn


class Shared(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.lock = threading.RLock()
        self.guards = {"train": self.lock, "eval": torch.no_grad()}

    def forward(self, x, mode="train"):
        with self.guards[mode]:
            y = self.net(x)
        return torch.relu(y)


def build():
    torch.manual_seed(0)
    return Shared(), (torch.randn(2, 4), "train")


def witnesses():
    """The other mode, and one that is missing."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x, "eval"), (x, "test"), (x.clone().requires_grad_(), "train")]
