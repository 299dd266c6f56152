"""A diffusion step draws its noise from a generator that is seeded from the system."""

import os

import torch
from torch import nn


class NoisyStep(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net, self.level = (
            nn.Sequential(nn.Linear(width, 16), nn.SiLU(), nn.Linear(16, width)),
            0.3,
        )

    def noise(self, x):
        generator = torch.Generator()
        generator.manual_seed(int.from_bytes(os.urandom(6), "little"))
        return torch.randn(x.shape, generator=generator)

    def forward(self, x):
        return x - self.net(x) + self.level * self.noise(x)


def build():
    torch.manual_seed(0)
    return NoisyStep().eval(), (torch.randn(2, 8),)
