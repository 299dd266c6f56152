"""A force field differentiates its energy by positions, with a graph only in training."""

import torch
from torch import nn


class ForceField(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, positions):
        energy = self.net(positions).sum()
        (slope,) = torch.autograd.grad(energy, positions, create_graph=self.training)
        return energy, -slope


def build():
    torch.manual_seed(0)
    return ForceField().eval(), (torch.randn(5, 3).requires_grad_(),)
