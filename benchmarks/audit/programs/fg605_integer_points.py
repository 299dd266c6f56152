"""FG605: points of integers cannot ask for a gradient, and a switched-off autograd has none to give."""

import torch
from torch import autograd, nn


class Surface(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1))
        self.lookups = 0

    def distance(self, points):
        return self.net(points.float())

    def forward(self, points, train=True):
        self.lookups += 1
        with torch.set_grad_enabled(train):
            points = points.detach().requires_grad_(True)
            distance = self.distance(points)
            ones = torch.ones_like(distance)
            normal = autograd.grad(distance, points, ones, create_graph=True)[0]
        return normal / normal.norm(dim=-1, keepdim=True)


def build():
    torch.manual_seed(0)
    return Surface(), (torch.randn(4, 3),)


def witnesses():
    """Integers, gradients switched off, half precision, and points of four coordinates."""
    return [
        (torch.ones(2, 3, dtype=torch.int64),),
        (torch.ones(2, 3), False),
        (torch.ones(2, 3).half(),),
        (torch.ones(2, 4),),
    ]
