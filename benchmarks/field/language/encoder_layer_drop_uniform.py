"""A training encoder skips layers by `random.uniform`, each layer with its own draw."""

import random

import torch
from torch import nn


class DroppedEncoder(nn.Module):
    def __init__(self, depth: int = 3, width: int = 12) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.layer_drop = 0.3

    def forward(self, hidden):
        seen = []
        for layer in self.layers:
            seen.append(hidden)
            draw = random.uniform(0, 1)
            if self.training and draw < self.layer_drop:
                continue
            hidden = hidden + torch.relu(layer(hidden))
        return hidden, torch.stack(seen)


def build():
    torch.manual_seed(0)
    return DroppedEncoder().train(), (torch.randn(2, 12),)
