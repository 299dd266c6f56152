"""FG851: what is appended is computed by a batch norm in training, which updates its statistics."""

import torch
from torch import nn


class Monitored(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width, momentum=0.5)
        self.seen = []

    def forward(self, x, centered=False):
        h = torch.tanh(self.net(x))
        self.seen.append(self.norm(h).detach())
        if centered:
            h = h - self.norm.running_mean
        return h


def build():
    torch.manual_seed(0)
    return Monitored().train(), (torch.randn(3, 4),)


def witnesses():
    """Centered by the running mean, not centered, and a batch of one, on which the norm raises."""
    torch.manual_seed(1)
    x = torch.randn(3, 4)
    return [(x, True), (x.requires_grad_(), False), (torch.randn(1, 4), False)]
