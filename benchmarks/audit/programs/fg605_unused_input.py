"""FG605: at the first level the score does not depend on the input, which `autograd.grad` refuses."""

import torch
from torch import autograd, nn
from torch.autograd import Variable


class Critic(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.body = nn.Linear(features, 8)
        self.head = nn.Linear(8, 1)
        self.prior = nn.Parameter(torch.zeros(1))

    def forward(self, x, level):
        if level == 0:
            return self.prior.expand(x.shape[0], 1)
        return self.head(torch.tanh(self.body(x)))


class GradientPenalty(nn.Module):
    def __init__(self, critic):
        super().__init__()
        self.critic = critic

    def forward(self, real, fake, level=1):
        mixed = 0.5 * real + 0.5 * fake
        x = Variable(mixed, requires_grad=True)
        score = self.critic(x, level)
        slope = autograd.grad(score, x, torch.ones_like(score), create_graph=True)[0]
        return ((slope.norm(2, dim=1) - 1) ** 2).mean()


def build():
    torch.manual_seed(0)
    return GradientPenalty(Critic(4)), (torch.randn(3, 4), torch.randn(3, 4))


def witnesses():
    """The level at which the input is not used, and leaves that are mixed."""
    leaf = torch.ones(2, 4, requires_grad=True)
    return [(torch.ones(2, 4), torch.zeros(2, 4), 0), (leaf, torch.zeros(2, 4), 1), (leaf, leaf, 0)]
