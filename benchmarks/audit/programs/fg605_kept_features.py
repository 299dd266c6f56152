"""FG605: the critic keeps its features for a later reader, who needs a plain tensor of the same graph."""

import torch
from torch import autograd, nn
from torch.autograd import Variable


class Critic(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.body = nn.Linear(features, 8)
        self.head = nn.Linear(8, 1)
        self.calls = 0
        self.features = None

    def forward(self, x):
        self.calls += 1
        self.features = torch.tanh(self.body(x))
        return self.head(self.features)


class Penalty(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.critic = Critic(features)

    def forward(self, mixed, keep=False):
        x = Variable(mixed, requires_grad=True)
        score = self.critic(x)
        slope = autograd.grad(score, x, torch.ones_like(score), create_graph=True)[0]
        penalty = (slope.norm(2, dim=1) - 1).square().mean()
        if keep:
            penalty = penalty + self.critic.features.square().mean()
        return penalty, score


def build():
    torch.manual_seed(0)
    return Penalty(4), (torch.randn(3, 4),)


def witnesses():
    """The features are read after the gradient, for three rows and for none."""
    return [(torch.ones(3, 4), True), (torch.ones(0, 4), True), (torch.ones(3, 4), False)]
