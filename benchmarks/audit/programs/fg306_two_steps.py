"""FG306: a step that must not draw leaves the random stream alone, or all later noise is another."""

import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.denoise = nn.Linear(4, 4)
        self.register_buffer("sigmas", torch.linspace(0.1, 0.9, 8))

    def step(self, x, t):
        mean = x - 0.1 * self.denoise(x)
        if t > 0:
            return mean + self.sigmas[t] * torch.randn_like(x)
        return mean

    def forward(self, x, schedule):
        for t in schedule:
            x = self.step(x, t)
        return x + 0.01 * torch.rand(x.shape)


def build():
    torch.manual_seed(0)
    return Sampler().eval(), (torch.randn(2, 4), torch.tensor([5, 2, 0]))


def witnesses():
    """Steps at zero before others, a schedule of zeros, a negative step, one of floats, and none."""
    x = torch.arange(8.0).view(2, 4)
    return [
        (x, torch.tensor([0, 3, 0, 7])),
        (x, torch.zeros(3, dtype=torch.int64)),
        (x, torch.tensor([2, -1, 4])),
        (x.clone().requires_grad_(), torch.tensor([0, 1, 0])),
        (x, torch.tensor([0.0, 0.5])),
        (x, torch.zeros(0, dtype=torch.int64)),
    ]
