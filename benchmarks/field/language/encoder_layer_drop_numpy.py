"""A speech encoder draws from NumPy whether a layer runs, and stops at a wanted layer."""

import numpy as np
import torch
from torch import nn


class SpeechEncoder(nn.Module):
    def __init__(self, depth: int = 4, width: int = 8) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.layerdrop = 0.2

    def forward(self, x, until=None):
        outputs, found = [], None
        for i, block in enumerate(self.blocks):
            if self.training and np.random.random() < self.layerdrop:
                continue
            x = torch.tanh(block(x))
            outputs.append(x)
            if i == until:
                found = x
                break
        return self.norm(x if found is None else found)


def build():
    torch.manual_seed(0)
    return SpeechEncoder().train(), (torch.randn(2, 5, 8),)
