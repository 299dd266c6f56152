"""FG201: the range of an image of bytes is a Python number, which does not wrap at 256."""

import torch
from torch import nn


class Equalise(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 2, 1)

    def forward(self, image):
        low = int(image.min())
        high = int(image.max())
        span = high - low + 1
        image = (image.float() - low) / span
        return self.conv(image) * (high + low) / (2 * high + 1)


def build():
    torch.manual_seed(0)
    return Equalise(3).eval(), (torch.randint(5, 60, (1, 3, 4, 4), dtype=torch.uint8),)


def witnesses():
    """The full range of a byte, bytes above 127, and signed bytes."""
    full = torch.arange(48).reshape(1, 3, 4, 4) * 255 // 47
    signed = torch.arange(48).reshape(1, 3, 4, 4) * 5 - 128
    return [
        (full.to(torch.uint8),),
        (torch.full((1, 3, 4, 4), 200, dtype=torch.uint8),),
        (signed.to(torch.int8),),
    ]
