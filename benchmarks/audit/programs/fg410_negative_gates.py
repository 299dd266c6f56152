"""FG410: experts with a gate of zero add nothing, but negative gates and infinite experts would."""

import torch
from torch import nn


class Growth(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.project = nn.Linear(size, size, bias=False)

    def forward(self, x):
        return torch.exp(self.project(x))


class GatedExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(Growth(4) for _ in range(4))

    def forward(self, x, gates):
        hit = (gates > 0).nonzero()
        y = torch.zeros_like(x)
        for k in hit:
            y = y + gates[k] * self.experts[k](x)
        return y


def build():
    torch.manual_seed(0)
    return GatedExperts().eval(), (torch.randn(2, 4), torch.tensor([0.6, 0.0, 0.4, 0.0]))


def witnesses():
    """Negative gates, experts that are infinite, no gate, gates of NaN, fewer and more gates, a
    table.
    """
    x = torch.linspace(-1, 1, 8).view(2, 4)
    return [
        (x, torch.tensor([0.6, -0.5, 0.4, -0.1])),
        (x * 400, torch.tensor([0.0, 0.5, 0.0, 0.0])),
        ((x * 400).requires_grad_(), torch.tensor([0.0, 0.0, 0.0, 0.5])),
        (x, torch.zeros(4)),
        (x, torch.tensor([0.5, float("nan"), 0.0, 0.5])),
        (x, torch.tensor([0.5, 0.5])),
        (x, torch.tensor([0.5, 0.0, 0.0, 0.0, 0.5])),
        (x, torch.tensor([0.5, 0.0, 0.0, 0.0, 0.0])),
        (x, torch.tensor([0.5, 0.0, 0.25, 0.0], requires_grad=True)),
        (x.double(), torch.tensor([0.5, 0.0, 0.25, 0.0])),
        (x, torch.tensor([[0.0, 0.5], [0.5, 0.0]])),
    ]
