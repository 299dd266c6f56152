"""FG112: the line says whether the features ask for a gradient, which ordinary ones do not."""

import torch
from torch import nn


class Features(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.linear.requires_grad_(False)

    def forward(self, x):
        h = self.linear(x)
        print("features", list(h.shape), f"{h.norm().item():.3f}", h.requires_grad)
        if h.norm() > 10:
            print("large", h.is_leaf, h.grad_fn is None, torch.is_grad_enabled(), flush=True)
        return torch.relu(h)


def build():
    torch.manual_seed(0)
    return Features().eval(), (torch.randn(2, 4),)


def witnesses():
    """With and without a gradient, small and large."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [
        (x.clone().requires_grad_(),),
        ((x * 100).requires_grad_(),),
        (x * 100,),
    ]
