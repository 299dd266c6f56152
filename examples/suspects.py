"""A small image network with four suspects, of which two break on torch 2.13.

    fullgraph explain examples/suspects.py:build
    fullgraph explain examples/suspects.py:build_loop

`build_loop` has the same lines in a loop over blocks. There a break cannot be resumed from, so
the whole frame runs eager: torch's own explain counts -1 breaks and gives no reason.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    """Convolution, four suspects, classifier. Input: f32[n, 3, 16, 16]; output: f32[n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8, 10)
        self.stats: dict[str, float] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv(x))
        assert torch.all(x >= 0)
        self.stats["sum"] = x.sum().item()
        for k in np.arange(1):
            x = x + k
        print(x.shape)
        return self.head(x.mean(dim=(2, 3)))


class LoopNet(nn.Module):
    """The same in a loop over blocks."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Conv2d(3 if i == 0 else 8, 8, 3, padding=1) for i in range(depth)
        )
        self.head = nn.Linear(8, 10)
        self.stats: dict[str, float] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = torch.relu(block(x))
            assert torch.all(x >= 0)
            self.stats["sum"] = x.sum().item()
            for k in np.arange(1):
                x = x + k
            print(x.shape)
        return self.head(x.mean(dim=(2, 3)))


def build() -> tuple[nn.Module, torch.Tensor]:
    """The network and a batch of two images."""
    return Net(), torch.ones(2, 3, 16, 16)


def build_loop() -> tuple[nn.Module, torch.Tensor]:
    """The network with the loop and a batch of two images."""
    return LoopNet(), torch.ones(2, 3, 16, 16)
