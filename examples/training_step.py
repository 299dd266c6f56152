"""A training step with the loss inside the compiled region, under autocast.

    fullgraph explain examples/training_step.py --train --backend aot_eager

`print` breaks it, and the backward runs through both pieces.
"""

from __future__ import annotations

import torch
from torch import nn


class Step(nn.Module):
    """Model and loss in one. Inputs: f32[n, 8] and i64[n]; output: the loss, f32[]."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model(x)
            print("logits", logits.dtype)
            return self.loss(logits, labels)


def build() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """The step and a batch of four."""
    return Step(), (torch.ones(4, 8), torch.tensor([0, 1, 2, 0]))
