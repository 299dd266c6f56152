"""An encoder in train mode: its dropout draws other masks in eager and compiled, unless seeded."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.drop, self.norm = nn.Dropout(0.4), nn.LayerNorm(width)

    def forward(self, x):
        for layer in self.layers:
            x = self.norm(x + self.drop(torch.relu(layer(x))))
        return x.mean(1)


def build():
    torch.manual_seed(0)
    return Encoder().train(), (torch.randn(2, 5, 8),)
