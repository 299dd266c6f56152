"""A resize silences the warnings of what it calls."""

import warnings

import torch
from torch import nn


class QuietResize(nn.Module):
    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, image):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            small = nn.functional.interpolate(image, scale_factor=0.5, mode="bilinear")
        return self.conv(small).relu()


def build():
    torch.manual_seed(0)
    return QuietResize(), (torch.randn(1, 3, 8, 8),)
