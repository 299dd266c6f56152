# ruff: noqa
"""Code that was written for an old torch: FG601 to FG605."""

import torch
import torch.nn.functional as F
from torch import autograd, nn
from torch.autograd import Variable

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


def scaled_by_variable(x):
    return x * Variable(torch.ones(4), requires_grad=False)


def mask_in_variable(x):
    mask = x * 2
    return Variable(mask)


def mask_without_gradient(x):
    mask = (x > 0).float()
    mask.requires_grad = False
    return x * mask


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_variables
        return 2 * x * grad


def squared(x):
    return Square.apply(x) + 1


def losses(x, y):
    loss = nn.MSELoss(size_average=False)(x, y)
    each = F.l1_loss(x, y, reduce=False)
    return loss + each.sum()


class Penalty(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, mixed):
        x = Variable(mixed, requires_grad=True)
        score = self.critic(x)
        slope = autograd.grad(score, x, torch.ones_like(score), create_graph=True)[0]
        return (slope.norm(2, dim=1) - 1).square().mean()


def leaf():
    return (inputs.vector()[0].requires_grad_(),)


PROGRAMS = (
    Program("FG601", scaled_by_variable, inputs.vector, "product"),
    Program("FG601", mask_in_variable, leaf, "returned"),
    Program("FG602", mask_without_gradient, inputs.vector),
    Program("FG603", squared, leaf, loss=True),
    Program("FG604", losses, inputs.pair),
    Program("FG605", Penalty, inputs.matrix, helpers=("FG601",)),
)
