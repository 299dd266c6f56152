"""FG701: an image of integers stays one where the branch is not taken, whatever the other side makes of it."""

import random

import torch
from torch import nn


class LevelNoise(nn.Module):
    def __init__(self, levels):
        super().__init__()
        self.levels = levels
        self.register_buffer("noise", torch.randn(4))

    def forward(self, images):
        keep = random.randrange(1, self.levels)
        outputs = []
        for level in range(self.levels):
            y = images
            if level > keep:
                y = y + self.noise
            outputs.append(y)
        return outputs


def build():
    torch.manual_seed(0)
    return LevelNoise(10).eval(), (torch.randn(2, 4),)


def witnesses():
    """Integers, bytes, half and double precision, and one image that is broadcast."""
    return [
        (torch.ones(2, 4, dtype=torch.int64),),
        (torch.ones(2, 4, dtype=torch.uint8),),
        (torch.ones(2, 4).half(),),
        (torch.ones(2, 4, dtype=torch.float64),),
        (torch.ones(2, 1),),
        (torch.tensor(1.0),),
    ]
