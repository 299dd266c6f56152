"""A network with four lines that once broke the graph: an assert, `.item()`, NumPy, `print`.

    fullgraph explain examples/four_suspects.py:build
    fullgraph explain examples/four_suspects.py:build --verify

On torch 2.13 two of them break: `.item()` in default mode, and `print` in both modes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    """Two linear layers around four suspects. Input: f32[n, 16]; output: f32[n, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.fc2 = nn.Linear(32, 4)
        self.d: dict[str, float] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.fc1(x))
        assert torch.all(x >= 0)
        self.d["fc1-out"] = x.sum().item()
        for k in np.arange(1):
            x = x + k
        print(x)
        return self.fc2(x)


def build() -> tuple[nn.Module, torch.Tensor]:
    """The network and a batch of two."""
    return Net(), torch.ones(2, 16)
