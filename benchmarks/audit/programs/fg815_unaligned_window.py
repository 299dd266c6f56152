"""FG815: only a window that is not aligned is copied, so only an aligned one is changed in place."""

import torch
from torch import nn


class Whitening(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, width))
        self.register_buffer("scale", torch.linspace(1, 2, width))
        self.out = nn.Linear(width, 4)

    def forward(self, frames):
        if frames.data_ptr() % 16:
            frames = frames.clone()
        frames.sub_(self.mean).div_(self.scale)
        return self.out(frames)


def build():
    torch.manual_seed(0)
    return Whitening().eval(), (torch.randn(4, 8),)


def witnesses():
    """Windows of one signal that begin one and four samples later, and one of half precision."""
    torch.manual_seed(1)
    signal = torch.randn(64)
    return [
        (signal[1:33].view(4, 8),),
        (signal[4:36].view(4, 8),),
        (signal.double()[1:33].float().view(4, 8),),
    ]
