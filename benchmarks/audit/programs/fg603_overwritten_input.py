"""FG603: a saved tensor that was overwritten before the backward pass raises there, with the same message."""

import torch
from torch import nn


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        gate = x.sigmoid()
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    def backward(ctx, grad):
        x, gate = ctx.saved_variables
        return grad * gate * (1 + x * (1 - gate))


class Block(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = nn.Linear(features, features)

    def forward(self, x, limit=None):
        h = self.proj(x)
        y = Swish.apply(h)
        if limit is not None:
            h.clamp_(max=limit)
        return y


def build():
    torch.manual_seed(0)
    return Block(4), (torch.randn(3, 4),)


def witnesses():
    """A limit, which overwrites what was saved, with and without rows."""
    return [(torch.ones(2, 4), 0.5), (torch.ones(0, 4), 0.5)]
