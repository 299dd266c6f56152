"""FG702: a random turn keeps the shape of square images only, and the side that is not taken gives the input itself."""

import random

import torch
from torch import nn


class RandomTurn(nn.Module):
    def __init__(self, chance):
        super().__init__()
        self.chance = chance

    def forward(self, images):
        if random.random() < self.chance:
            images = images.transpose(-2, -1)
        if random.random() < self.chance:
            images = images / images.amax()
        return images


def build():
    torch.manual_seed(0)
    return RandomTurn(0.8), (torch.rand(2, 1, 4, 4),)


def witnesses():
    """Images that are not square, of integers, without a pixel, all zero, and a leaf."""
    return [
        (torch.ones(1, 1, 3, 5),),
        (torch.ones(1, 1, 1, 3),),
        (torch.ones(1, 1, 4, 4, dtype=torch.int64),),
        (torch.ones(0, 1, 4, 4),),
        (torch.zeros(1, 1, 4, 4, requires_grad=True),),
        (torch.arange(16.0).view(1, 1, 4, 4),),
    ]
