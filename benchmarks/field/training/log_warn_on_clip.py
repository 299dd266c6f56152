"""A layer warns when it has to clip."""

import warnings

import torch
from torch import nn


class ClippedLinear(nn.Module):
    def __init__(self, width: int = 6, limit: float = 3.0) -> None:
        super().__init__()
        self.linear, self.limit = nn.Linear(width, width), limit

    def forward(self, x, lengths=None):
        if lengths is None:
            warnings.warn("no lengths: every position counts", stacklevel=2)
            lengths = torch.full((x.shape[0],), x.shape[1])
        out = self.linear(x).clamp(-self.limit, self.limit)
        return out.sum(1) / lengths[:, None]


def build():
    torch.manual_seed(0)
    return ClippedLinear(), (torch.randn(2, 4, 6),)
