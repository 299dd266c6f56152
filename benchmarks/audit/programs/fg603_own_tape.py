"""FG603: a layer with a gradient by hand has an attribute of the same name, which is its own."""

import torch
from torch import nn


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_variables
        return 2 * x * grad


class DeltaRule:
    def __init__(self, rate):
        self.rate = rate

    def forward(self, x, weight):
        self.saved_variables = (x, weight)
        return x @ weight

    def backward(self, error):
        x, weight = self.saved_variables
        return weight - self.rate * x.T @ error


class FastWeights(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, features))
        self.rule = DeltaRule(0.1)

    def forward(self, x, target):
        guess = self.rule.forward(x, self.weight)
        updated = self.rule.backward(guess - target)
        return Square.apply(x @ updated)


def build():
    torch.manual_seed(0)
    return FastWeights(3), (torch.randn(2, 3), torch.randn(2, 3))


def witnesses():
    """An input that asks for a gradient, and one without rows."""
    return [
        (torch.ones(2, 3, requires_grad=True), torch.zeros(2, 3)),
        (torch.ones(0, 3), torch.zeros(0, 3)),
    ]
