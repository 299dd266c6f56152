"""A forecaster adds up its series, each copy shifted by one of the best periods."""

import math

import torch
from torch import nn


class PeriodAttention(nn.Module):
    def __init__(self, width: int = 6, factor: float = 1.5) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.factor = factor

    def forward(self, x):
        steps = x.shape[1]
        query, key = torch.fft.rfft(self.query(x), dim=1), torch.fft.rfft(self.key(x), dim=1)
        match = torch.fft.irfft(query * key.conj(), n=steps, dim=1).mean(-1)
        best = int(self.factor * math.log(steps))
        delays = match.mean(0).topk(best).indices
        weights = match[:, delays].softmax(-1)
        value, mixed = self.value(x), torch.zeros_like(x)
        for number in range(best):
            shifted = value.roll(-int(delays[number]), dims=1)
            mixed = mixed + shifted * weights[:, number, None, None]
        return mixed


def build():
    torch.manual_seed(0)
    return PeriodAttention(), (torch.randn(2, 12, 6),)
