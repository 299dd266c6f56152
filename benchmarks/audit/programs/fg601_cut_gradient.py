"""FG601: the wrapper cuts an argument off from its gradient, also if no ordinary input asks for one."""

import torch
from torch import nn
from torch.autograd import Variable


class Autoencoder(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.encode = nn.Linear(features, 2)
        self.decode = nn.Linear(2, features)

    def forward(self, images, target=None):
        if target is None:
            target = images
        images, target = Variable(images), Variable(target)
        restored = self.decode(self.encode(images).tanh())
        return (restored - target).square().mean(), target


def build():
    torch.manual_seed(0)
    return Autoencoder(6), (torch.randn(3, 6),)


def witnesses():
    """Images that are leaves, a target that is a leaf, and the same leaf for both."""
    same = torch.ones(2, 6, requires_grad=True)
    return [
        (torch.ones(2, 6, requires_grad=True),),
        (torch.ones(2, 6), torch.zeros(2, 6, requires_grad=True)),
        (same, same),
        (nn.Parameter(torch.ones(2, 6)), torch.zeros(2, 6)),
    ]
