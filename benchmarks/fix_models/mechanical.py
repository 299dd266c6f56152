"""Causes whose repair changes no meaning: old wrappers, NumPy on sizes, logs, masked updates."""

from __future__ import annotations

import logging
import math
import warnings

import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
from torch.nn import functional as F

from benchmarks.models.entry import Entry

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())


class GaussianNoise(nn.Module):
    def __init__(self):
        super().__init__()
        self.noise = torch.zeros(8)

    def forward(self, x):
        noise = Variable(self.noise.expand_as(x), requires_grad=False)  # no gradient
        return x + noise


class PositionalEncoding(nn.Module):
    def __init__(self, width=8, length=32):
        super().__init__()
        steps = torch.arange(length).unsqueeze(1)
        scale = torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
        table = torch.zeros(length, width)
        table[:, 0::2] = torch.sin(steps * scale)
        table[:, 1::2] = torch.cos(steps * scale)
        self.register_buffer("pe", table.unsqueeze(0))

    def forward(self, x):
        return x + Variable(self.pe[:, : x.size(1)], requires_grad=False)


class HiddenState(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x):
        h = Variable(torch.zeros(x.size(0), 8))
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
        return h


class FlattenRows(nn.Module):
    def forward(self, x):
        rows = int(np.prod(x.size()[:-1]))
        return x.reshape(rows, -1) * 2


class Downsample(nn.Module):
    def forward(self, x):
        height = int(np.ceil(x.shape[-2] / 2.0))
        width = int(np.floor(x.shape[-1] / 2.0))
        return F.adaptive_avg_pool2d(x, (height, width))


class ScaledScores(nn.Module):
    def forward(self, q, k):
        return q @ k.transpose(-2, -1) / float(np.sqrt(q.shape[-1]))


class Upsample(nn.Module):
    def forward(self, x):
        h, w = torch.tensor(x.size()[2:]).tolist()
        return F.interpolate(x, size=(h * 2, w * 2))


class Mask(nn.Module):
    def forward(self, x):
        mask = (x > 0).float()
        mask.requires_grad = False
        return x * mask


class LoggedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        h = self.lin(x)
        logger.warning("shape %s", tuple(h.shape))
        return h.relu()


class WarnedBlock(nn.Module):
    def forward(self, x):
        if x.dim() < 4:
            warnings.warn("expected a batch of images", stacklevel=2)
        return x * 2


class PrintedBlock(nn.Module):
    def forward(self, x):
        y = x.softmax(-1)
        print("softmax", y.shape)
        return y.log()


class ClampedByMask(nn.Module):
    def forward(self, x):
        x = x.clone()
        x[x < 0] = torch.exp(x[x < 0]) - 1
        return x


class ShiftedIndices(nn.Module):
    def forward(self, scores):
        index = scores.argsort(-1)
        index[index >= 3] += 1
        return index


class MaskedGain(nn.Module):
    def forward(self, x, gate):
        y = x * 1
        y[gate] *= 0.5
        return y


class CheckedHidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        h = self.lin(x)
        assert not torch.isnan(h).any(), f"NaN in {tuple(h.shape)}"
        return h


class RangeGuard(nn.Module):
    def forward(self, x):
        if not (x.abs() <= 1e6).all():
            raise ValueError("input out of range")
        return x / 2


class SummedLoss(nn.Module):
    def forward(self, x, y):
        return nn.MSELoss(size_average=False)(x, y) / x.shape[0]


def _images():
    return (torch.randn(2, 3, 7, 5),)


def _rows(n=1):
    return tuple(torch.randn(4, 8) for _ in range(n))


ENTRIES = tuple(
    Entry("mechanical", kind.__name__, lambda kind=kind, inputs=inputs: (kind(), inputs(), {}))
    for kind, inputs in (
        (GaussianNoise, _rows),
        (PositionalEncoding, lambda: (torch.randn(2, 5, 8),)),
        (HiddenState, lambda: (torch.randn(2, 3, 8),)),
        (FlattenRows, lambda: (torch.randn(2, 3, 8),)),
        (Downsample, _images),
        (ScaledScores, lambda: _rows(2)),
        (Upsample, _images),
        (Mask, _rows),
        (LoggedBlock, _rows),
        (WarnedBlock, _rows),
        (PrintedBlock, _rows),
        (ClampedByMask, _rows),
        (ShiftedIndices, _rows),
        (MaskedGain, lambda: (torch.randn(4, 8), torch.rand(4, 8) > 0.5)),
        (CheckedHidden, _rows),
        (RangeGuard, _rows),
        (SummedLoss, lambda: _rows(2)),
    )
)
