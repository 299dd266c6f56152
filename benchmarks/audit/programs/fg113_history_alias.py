"""FG113: the list that the forward appends to is read under its other name."""

import torch
from torch import nn


class Plateau(nn.Module):
    def __init__(self, width=4, patience=2):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.patience = patience
        self.history = []
        self.recent = self.history

    def forward(self, x):
        h = self.linear(x)
        self.history.append(h.norm().item())
        if len(self.recent) >= self.patience:
            h = h * 0.5
        return h


def build():
    torch.manual_seed(0)
    return Plateau().eval(), (torch.randn(2, 4),)


def witnesses():
    """The second call is the first one that is damped."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4),), (torch.zeros(0, 4),)]
