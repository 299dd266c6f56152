"""FG112: the line tells how the tensor lies in memory and what it shares with another."""

import torch
from torch import nn


class Flatten(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(6))

    def forward(self, x, other):
        h = x.reshape(-1)
        print("strides", x.stride(), x.is_contiguous(), f"{h.sum().item():.3f}")
        print("shared", h.data_ptr() == x.data_ptr(), x.data_ptr() == other.data_ptr(), x is other)
        self.kept.copy_(h)
        return h + other.reshape(-1)


def build():
    torch.manual_seed(0)
    return Flatten(), (torch.randn(2, 3), torch.randn(2, 3))


def witnesses():
    """A transposed input, an expanded one, the same tensor twice, and a view of the other."""
    torch.manual_seed(1)
    x, long = torch.randn(2, 3), torch.randn(12)
    return [
        (torch.randn(3, 2).t(), x),
        (torch.randn(1, 3).expand(2, 3), x),
        (x, x),
        (long[:6].view(2, 3), long[:6]),
        (x.clone().requires_grad_(), x),
    ]
