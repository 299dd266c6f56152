"""FG410: an expert that is not picked keeps its usage and draws no noise."""

import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.project = nn.Linear(size, size)
        self.register_buffer("usage", torch.zeros(()))

    def forward(self, x, noise):
        self.usage.mul_(0.9).add_(0.1 * x.shape[0])
        if noise > 0:
            x = x + noise * torch.randn(x.shape[-1])
        return self.project(x)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(Expert(4) for _ in range(3))

    def forward(self, x, top, noise=0.0):
        y = torch.zeros_like(x)
        for k in top.unique():
            chosen = top == k
            y[chosen] = self.experts[k](x[chosen], noise)
        return y


def build():
    torch.manual_seed(0)
    return Mixture().eval(), (torch.randn(5, 4), torch.tensor([0, 1, 1, 0, 2]))


def witnesses():
    """Noise with an expert missing in between, the last one alone, one that is counted from the
    end, none.
    """
    x = torch.linspace(-1, 1, 12).view(3, 4)
    return [
        (x, torch.tensor([2, 0, 2]), 0.5),
        (x, torch.tensor([2, 2, 2]), 0.5),
        (x, torch.tensor([-1, 0, 0])),
        (x, torch.tensor([0, 3, 0])),
        (x[:0], torch.zeros(0, dtype=torch.int64), 0.5),
        (x.half(), torch.tensor([1, 0, 0])),
        (x.clone().requires_grad_(), torch.tensor([1, 1, 0])),
    ]
