"""FG603: one of the saved tensors is None, and the number of saved ones changes with the arguments."""

import torch
from torch import nn


class ScaledError(torch.autograd.Function):
    @staticmethod
    def forward(ctx, guess, target, weight):
        error = guess - target
        ctx.save_for_backward(error, weight)
        return (error**2 if weight is None else weight * error**2).mean()

    @staticmethod
    def backward(context, grad):
        saved = context.saved_variables
        error, weight = saved
        slope = 2 * error * grad / max(error.numel(), 1)
        if weight is None:
            return slope, -slope if context.needs_input_grad[1] else None, None
        by_weight = error**2 * grad / error.numel() if context.needs_input_grad[2] else None
        return slope * weight, -slope * weight, by_weight


class Regressor(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, 1)

    def forward(self, x, target, weight=None):
        return ScaledError.apply(self.net(x), target, weight)


def build():
    torch.manual_seed(0)
    return Regressor(4), (torch.randn(3, 4), torch.randn(3, 1), torch.rand(3, 1))


def witnesses():
    """No weight, a weight and a target that ask for a gradient, and the same leaf for both."""
    leaf = torch.ones(3, 1, requires_grad=True)
    return [
        (torch.ones(3, 4), torch.zeros(3, 1)),
        (torch.ones(3, 4), torch.zeros(3, 1, requires_grad=True)),
        (torch.ones(3, 4), leaf, leaf),
    ]
