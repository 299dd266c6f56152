"""A decoder for panoramas stretches width more than height, by factors that are no integers."""

import torch
from torch import nn
from torch.nn import functional as F


class Stretch(nn.Module):
    def __init__(self, channels, factor):
        super().__init__()
        self.factor, self.conv = factor, nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        x = F.interpolate(x, scale_factor=self.factor, mode="nearest")
        return F.relu(self.conv(x))


class PanoramaDecoder(nn.Module):
    def __init__(self, latent=6, channels=4):
        super().__init__()
        self.channels = channels
        self.project = nn.Linear(latent, channels * 3 * 4)
        self.norm = nn.GroupNorm(2, channels)
        self.wide, self.both = Stretch(channels, (1.3, 1.5)), Stretch(channels, (2.0, 2.0))
        self.colour = nn.Conv2d(channels, 3, 1)

    def forward(self, z):
        x = self.project(z).view(-1, self.channels, 3, 4)
        x = self.both(self.wide(F.relu(self.norm(x))))
        return torch.sigmoid(self.colour(x))


def build():
    torch.manual_seed(0)
    return PanoramaDecoder().eval().requires_grad_(False), (torch.randn(2, 6),)
