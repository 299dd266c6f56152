"""A layer that gathers neighbouring frames builds its kernel from the first input it gets."""

import torch
from torch import nn
from torch.nn import functional as F


class FrameContext(nn.Module):
    def __init__(self, left: int = 1, right: int = 2) -> None:
        super().__init__()
        self.reach, self.count = max(left, right), left + right + 1
        kernel = torch.eye(self.count, 2 * self.reach + 1)
        self.kernel = kernel.roll(right - left, 1) if right > left else kernel
        self.fresh = True

    def forward(self, x):
        x = x.mT
        if self.fresh:
            self.fresh = False
            self.kernel = self.kernel.repeat(x.shape[1], 1)[:, None]
        out = F.conv1d(x, self.kernel.to(x.device), groups=x.shape[1], padding=self.reach)
        return out.mT


def build():
    torch.manual_seed(0)
    return FrameContext(), (torch.randn(2, 9, 4),)


build_calls = [(torch.ones(2, 9, 4) * i,) for i in range(1, 4)]
