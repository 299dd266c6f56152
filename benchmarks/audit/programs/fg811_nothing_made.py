"""FG811: with no step nothing is made in the block, and a wrong device is an error all the same."""

import torch
from torch import nn


class Noise(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x, steps=2, device="cpu"):
        with torch.device(device):
            for step in range(steps):
                x = x + torch.randn(x.shape[-1]) * self.scale / (step + 1)
        return x


def build():
    torch.manual_seed(0)
    return Noise(), (torch.randn(2, 4), 2, "cpu")


def witnesses():
    """A name that is no device, and none, with and without a step."""
    x = torch.ones(2, 4)
    devices = ("gpu", None, "cpu", "cpu:0")
    return [(x, steps, device) for steps in (0, 1, 3) for device in devices]
