"""Causes that a rewrite mends if purity, shapes or the user's consent allow it."""

from __future__ import annotations

import random

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.models.entry import Entry


class MaskedL1(nn.Module):
    def forward(self, pred, target):
        valid = target > 0
        diff = (pred - target).abs()
        diff = diff[valid]
        return diff.mean()


class BerHu(nn.Module):
    def forward(self, pred, target):
        diff = (pred - target).abs()
        c = 0.2 * diff.max().item()
        return torch.where(diff <= c, diff, (diff**2 + c**2) / (2 * c)).mean()


class FocalOnPositives(nn.Module):
    def forward(self, logits, target):
        p = logits.sigmoid()
        positive = target > 0.5
        return -(torch.log(p[positive].clamp(min=1e-6))).sum() / max(positive.sum().item(), 1)


class EmptyBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x, target):
        if torch.sum(target) == 0:
            return x.sum() * 0.0
        return F.mse_loss(self.lin(x), target)


class NormalisedLoss(nn.Module):
    def forward(self, loss, weight):
        total = float(weight.sum())
        if total == 0:
            total = 1.0
        return (loss * weight).sum() / total


class AvgFactor(nn.Module):
    def forward(self, loss, valid):
        avg_factor = max(valid.float().sum().item(), 1.0)
        return loss.sum() / avg_factor


class ClippedGradient(nn.Module):
    def forward(self, g):
        norm = g.norm()
        if norm > 1.0:
            g = g / norm
        return g


class FlipSign(nn.Module):
    def forward(self, x):
        if x.mean() < 0:
            y = -x
        else:
            y = x
        return y * 2


class SelfAttentionOrNot(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)

    def forward(self, query, key):
        q = self.q(query)
        if torch.equal(query, key):
            k = q
        else:
            k = self.q(key)
        return q @ k.transpose(-2, -1)


class DropPath(nn.Module):
    def __init__(self, rate=0.3):
        super().__init__()
        self.rate = rate
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        y = self.lin(x)
        if random.random() < self.rate:
            y = y * 0
        return x + y


class MixNoise(nn.Module):
    def forward(self, x):
        return x + random.random() * torch.ones_like(x)


class Queue(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.randn(8, 12))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    def forward(self, keys):
        ptr = int(self.ptr)
        self.queue[:, ptr : ptr + 4] = keys.t()
        self.ptr[0] = (ptr + 4) % 12
        return keys @ self.queue


class RunningMax(nn.Module):
    def __init__(self):
        super().__init__()
        self.best = 0.0

    def forward(self, x):
        self.best = max(self.best, x.max().item())
        return x * 2


class LossReport(nn.Module):
    def __init__(self):
        super().__init__()
        self.logs = {}

    def forward(self, pred, target):
        loss = F.mse_loss(pred, target)
        self.logs["mse"] = loss.item()
        self.logs["pred_max"] = pred.max().item()
        return loss


class HardestRow(nn.Module):
    def forward(self, distances, same):
        rows = []
        for i in range(distances.shape[0]):
            rows.append(distances[i][same[i]].max())
        return torch.stack(rows).mean()


class CountForeground(nn.Module):
    def forward(self, mask, loss):
        count = len(mask.nonzero())
        return loss.sum() / (count + 1)


class Accuracy(nn.Module):
    def forward(self, logits, target):
        valid = target != 0
        right = (logits.argmax(-1) == target)[valid]
        return right.float().mean()


class Histogram(nn.Module):
    def forward(self, labels):
        return torch.bincount(labels, minlength=4).float() / labels.numel()


class SafeLog(nn.Module):
    def forward(self, x):
        return torch.log(x) if (x > 0).all() else torch.log(x.abs() + 1e-3)


class Overflow(nn.Module):
    def forward(self, x):
        if torch.isinf(x).any() or torch.isnan(x).any():
            x = torch.clamp(x, min=-1e4, max=1e4)
        return x + 1


class Temperature(nn.Module):
    def forward(self, logits, scale):
        return logits * float(scale.exp().clamp(max=100))


class MaskedCrossEntropy(nn.Module):
    def forward(self, logits, target):
        keep = target != 0
        return F.cross_entropy(logits[keep], target[keep])


def _pair():
    return torch.randn(4, 8), torch.randn(4, 8)


ENTRIES = tuple(
    Entry("conditions", kind.__name__, lambda kind=kind, inputs=inputs: (kind(), inputs(), {}))
    for kind, inputs in (
        (MaskedL1, _pair),
        (BerHu, _pair),
        (FocalOnPositives, lambda: (torch.randn(4, 8), torch.rand(4, 8))),
        (EmptyBatch, _pair),
        (NormalisedLoss, lambda: (torch.rand(4, 8), torch.rand(4, 8))),
        (AvgFactor, lambda: (torch.rand(4, 8), torch.rand(4, 8) > 0.5)),
        (ClippedGradient, lambda: (torch.randn(4, 8),)),
        (FlipSign, lambda: (torch.randn(4, 8),)),
        (SelfAttentionOrNot, _pair),
        (DropPath, lambda: (torch.randn(4, 8),)),
        (MixNoise, lambda: (torch.randn(4, 8),)),
        (Queue, lambda: (torch.randn(4, 8),)),
        (RunningMax, lambda: (torch.randn(4, 8),)),
        (LossReport, _pair),
        (HardestRow, lambda: (torch.rand(4, 4), torch.eye(4) > 0)),
        (CountForeground, lambda: (torch.rand(4, 8) > 0.5, torch.rand(4, 8))),
        (Accuracy, lambda: (torch.randn(6, 4), torch.randint(0, 4, (6,)))),
        (Histogram, lambda: (torch.randint(0, 4, (16,)),)),
        (SafeLog, lambda: (torch.rand(4, 8),)),
        (Overflow, lambda: (torch.randn(4, 8),)),
        (Temperature, lambda: (torch.randn(4, 8), torch.zeros(()))),
        (MaskedCrossEntropy, lambda: (torch.randn(6, 4), torch.randint(0, 4, (6,)))),
    )
)
