"""The same block runs on inputs without a gradient and then on hidden states with one."""

import torch
from torch import nn


class AdaptedBlock(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, 2), nn.Linear(2, width)

    def forward(self, x):
        return x + self.frozen(x) + self.up(self.down(x))


def build():
    torch.manual_seed(0)
    return AdaptedBlock(), (torch.randn(3, 4),)


build_calls = [(torch.ones(3, 4).requires_grad_(),), (torch.ones(3, 4),)]
