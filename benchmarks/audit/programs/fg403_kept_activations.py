"""FG403: the tensor that is assigned to was given to a list before, which must see the change."""

import torch
from torch import nn


class Compressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.latest = None

    def forward(self, x, trace=None):
        for layer in self.layers:
            x = layer(x)
            head = x.view(-1, 2)
            if trace is not None:
                trace.append(x)
                self.latest = head
            loud = x > 0.5
            x[loud] = torch.sqrt(x[loud]) * 2
        return x, head.amax()


def build():
    torch.manual_seed(0)
    return Compressor().eval(), (torch.randn(3, 4) * 2,)


def witnesses():
    """A list that keeps all activations, with a gradient, one with a loud element, one row, and
    none.
    """
    x = torch.linspace(-6, 6, 12).view(3, 4)
    return [
        (x, []),
        (x.clone().requires_grad_(), []),
        (x, [torch.ones(1)]),
        (x[:1], []),
        (x[:0],),
    ]
