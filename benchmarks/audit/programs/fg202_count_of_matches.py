"""FG202: two answers of torch.equal add up to 2, and two tensors of one bool to True."""

import torch
from torch import nn


class Agreement(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("low", torch.zeros(width))
        self.register_buffer("high", torch.ones(width))

    def forward(self, x, low, high):
        matches = torch.equal(low, self.low) + torch.equal(high, self.high)
        return x * matches


def build():
    torch.manual_seed(0)
    return Agreement(4), (torch.randn(2, 4), torch.zeros(4), torch.full((4,), 2.0))


def witnesses():
    """Both match, neither does, and integers are scaled."""
    x = torch.arange(8.0).reshape(2, 4)
    return [
        (x, torch.zeros(4), torch.ones(4)),
        (x, torch.ones(4), torch.zeros(4)),
        (x.long(), torch.zeros(4), torch.ones(4)),
        (x > 2, torch.zeros(4), torch.ones(4)),
    ]
