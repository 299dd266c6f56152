"""Pretraining masks spans of the input that NumPy chooses."""

import numpy as np
import torch
from torch import nn


class SpanMasker(nn.Module):
    def __init__(self, width: int = 6, share: float = 0.4, span: int = 2) -> None:
        super().__init__()
        self.filler = nn.Parameter(torch.rand(width))
        self.share, self.span = share, span

    def spans(self, batch, length):
        extra = float(np.random.rand())
        count = max(1, int(self.share * length / self.span + extra))
        mask = np.zeros((batch, length), dtype=bool)
        for row in range(batch):
            starts = np.random.choice(length - self.span, count, replace=False)
            for shift in range(self.span):
                mask[row, starts + shift] = True
        return torch.from_numpy(mask)

    def forward(self, x):
        if not self.training:
            return x
        mask = self.spans(*x.shape[:2])
        return torch.where(mask.unsqueeze(-1), self.filler, x)


def build():
    torch.manual_seed(0)
    return SpanMasker().train(), (torch.randn(2, 10, 6),)
