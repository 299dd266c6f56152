"""A helper inside forward keeps the rows of every tensor of a batch that pass a condition."""

import torch
from torch import nn


class BatchFilter(nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.head = nn.Linear(width, 2)

    def forward(self, batch, ages):
        kept = dict(batch)

        def select(rows):
            for name, tensor in kept.items():
                kept[name] = tensor[rows]

        select(ages < 2)
        return self.head(kept["x"]).sum(0), kept["y"].float().mean()


def build():
    torch.manual_seed(0)
    batch = {"x": torch.randn(5, 3), "y": torch.arange(5)}
    return BatchFilter(), (batch, torch.tensor([0, 3, 1, 1, 4]))
