"""FG605: the critic has an autograd.Function of the old form, which functional transforms refuse."""

import torch
from torch import autograd, nn


class Reverse(autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.weight * grad, None


class Domain(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.body = nn.Linear(features, 6)
        self.head = nn.Linear(6, 1)

    def forward(self, x, weight=None):
        h = self.body(x).tanh()
        if weight is not None:
            h = Reverse.apply(h, weight)
        return self.head(h)


class Saliency(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.domain = Domain(features)

    def forward(self, images, weight=None):
        x = images.detach().requires_grad_(True)
        score = self.domain(x, weight).sum()
        slope = autograd.grad(score, x, create_graph=self.training)[0]
        return slope.abs()


def build():
    torch.manual_seed(0)
    return Saliency(4).eval(), (torch.randn(2, 4),)


def witnesses():
    """The weight of the reversal is given, as a number and as a tensor."""
    return [(torch.ones(2, 4), 0.5), (torch.ones(2, 4), torch.tensor(2.0)), (torch.ones(0, 4), 1.0)]
