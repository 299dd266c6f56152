"""A sampler moves its state along the gradient of an energy that holds a rounding layer."""

import torch
from torch import nn


class RoundThrough(torch.autograd.Function):
    """Round in the forward, identity in the backward."""

    @staticmethod
    def forward(x, steps):
        return (x * steps).round() / steps

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.steps = inputs

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Energy(nn.Module):
    def __init__(self, width, hidden=16):
        super().__init__()
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, 1)
        self.steps = 8

    def forward(self, x):
        x = RoundThrough.apply(x, self.steps)
        return self.second(torch.tanh(self.first(x))).sum()


class LangevinSampler(nn.Module):
    def __init__(self, width=6, rate=0.1, rounds=2):
        super().__init__()
        self.energy, self.rate, self.rounds = Energy(width), rate, rounds
        self.register_buffer("shift", torch.linspace(-1, 1, width))

    def forward(self, x):
        x = x + self.shift
        for _ in range(self.rounds):
            x = x - self.rate * torch.func.grad(self.energy)(x)
        return x, torch.sigmoid(x.mean(-1))


def build():
    torch.manual_seed(0)
    return LangevinSampler().eval().requires_grad_(False), (torch.randn(3, 6),)
