"""Augmentation moves a random frame elsewhere and stretches what lies on both sides of it."""

import torch
from torch import nn
from torch.nn import functional as F


class TimeWarp(nn.Module):
    def __init__(self, reach: int = 3, mode: str = "bilinear") -> None:
        super().__init__()
        self.reach, self.mode = reach, mode

    def stretch(self, part, frames):
        return F.interpolate(part, (frames, part.shape[3]), mode=self.mode)

    def forward(self, spectrogram):
        x, total = spectrogram.unsqueeze(1), spectrogram.shape[1]
        if total <= 2 * self.reach:
            return spectrogram
        pivot = int(torch.randint(self.reach, total - self.reach, (1,)))
        target = int(torch.randint(pivot - self.reach, pivot + self.reach, (1,))) + 1
        before = self.stretch(x[:, :, :pivot], target)
        after = self.stretch(x[:, :, pivot:], total - target)
        return torch.cat((before, after), dim=2).squeeze(1)


def build():
    torch.manual_seed(0)
    return TimeWarp(), (torch.randn(2, 12, 5),)
