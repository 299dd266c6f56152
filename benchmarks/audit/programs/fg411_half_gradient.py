"""FG411: in half precision the gradient of an element that is in many pairs must not lose precision."""

import torch
from torch import nn


class Repulsion(nn.Module):
    def __init__(self):
        super().__init__()
        self.strength = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        first, second = torch.combinations(x).T
        return self.strength * (first * second).float().mean() * len(x)


def build():
    torch.manual_seed(0)
    return Repulsion(), (torch.rand(8),)


def witnesses():
    """Four hundred elements of half precision and of bfloat16, and one element that is expanded."""
    generator = torch.Generator().manual_seed(1)
    values = torch.rand(400, generator=generator)
    return [
        (values.half().requires_grad_(),),
        (values.bfloat16().requires_grad_(),),
        (torch.tensor([0.3]).expand(5),),
    ]
