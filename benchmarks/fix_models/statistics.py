# ruff: noqa
"""Running statistics, histograms and metrics."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class ConfusionMatrix(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.num_classes = num_classes
        self.register_buffer("matrix", torch.zeros(num_classes, num_classes, dtype=torch.long))

    def forward(self, pred, target):
        k = (target >= 0) & (target < self.num_classes)
        inds = self.num_classes * target[k] + pred.argmax(1)[k]
        self.matrix += torch.bincount(inds, minlength=self.num_classes**2).reshape(
            self.num_classes, self.num_classes
        )
        acc = torch.diag(self.matrix).sum() / self.matrix.sum()
        return acc


class ClassBalance(nn.Module):
    """Weights by how often each class comes in the batch."""

    def __init__(self, classes=5):
        super().__init__()
        self.classes = classes

    def forward(self, logits, y):
        counts = torch.bincount(y, minlength=self.classes).float()
        weight = y.numel() / (self.classes * counts.clamp(min=1))
        return F.cross_entropy(logits, y, weight=weight)


def accuracy(output, target, topk=(1,)):
    """Computes the precision@k for the specified values of k"""
    maxk = max(topk)
    batch_size = target.size(0)
    _, pred = output.topk(maxk, 1, True, True)
    pred = pred.t()
    correct = pred.eq(target.view(1, -1).expand_as(pred))
    res = []
    for k in topk:
        correct_k = correct[:k].reshape(-1).float().sum(0)
        res.append(correct_k.mul_(100.0 / batch_size).item())
    return res


class TopK(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 5)

    def forward(self, x, y):
        logits = self.fc(x)
        top1, top3 = accuracy(logits, y, topk=(1, 3))
        return F.cross_entropy(logits, y), top1, top3


class RewardNormalizer(nn.Module):
    """Welford's running mean and variance with Python floats."""

    def __init__(self):
        super().__init__()
        self.mean, self.var, self.count = 0.0, 1.0, 1e-4

    def forward(self, rewards):
        batch_mean = rewards.mean().item()
        batch_var = rewards.var(unbiased=False).item()
        n = rewards.numel()
        delta = batch_mean - self.mean
        total = self.count + n
        self.mean = self.mean + delta * n / total
        self.var = (
            self.var * self.count + batch_var * n + delta**2 * self.count * n / total
        ) / total
        self.count = total
        return (rewards - self.mean) / (self.var + 1e-8) ** 0.5


class BestTracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("best", torch.tensor(float("inf")))
        self.register_buffer("since", torch.tensor(0))

    def forward(self, pred, target):
        loss = F.mse_loss(pred, target)
        with torch.no_grad():
            if loss < self.best:
                self.best.copy_(loss)
                self.since.zero_()
            else:
                self.since += 1
        return loss


class ObserverScale(nn.Module):
    """Quantization observer: a scale from the running range, floored."""

    def __init__(self, bits=8):
        super().__init__()
        self.levels = 2**bits - 1
        self.register_buffer("lo", torch.zeros(()))
        self.register_buffer("hi", torch.zeros(()))

    def forward(self, x):
        self.lo.copy_(torch.minimum(self.lo, x.detach().min()))
        self.hi.copy_(torch.maximum(self.hi, x.detach().max()))
        scale = max((self.hi - self.lo).item() / self.levels, 1e-8)
        zero = round(-self.lo.item() / scale)
        q = torch.clamp(torch.round(x / scale) + zero, 0, self.levels)
        return (q - zero) * scale


class UniqueClasses(nn.Module):
    """One mean a class that is present."""

    def forward(self, feats, labels):
        means = [feats[labels == c].mean(0) for c in labels.unique()]
        return torch.stack(means)


class PeakShift(nn.Module):
    """Rolls the signal so that its peak comes first."""

    def forward(self, x):
        peak = x.argmax().item()
        return torch.roll(x, -peak, dims=0)


class ThresholdedMean(nn.Module):
    """Outliers of more than three sigma do not count; nothing left means the plain mean."""

    def forward(self, x):
        mu, sd = x.mean(), x.std()
        kept = x[(x - mu).abs() < 3 * sd]
        if kept.numel() == 0:
            return mu
        return kept.sum() / kept.numel()


class QuantileBins(nn.Module):
    """Which bins are empty decides the mask; positions by one-argument where."""

    def forward(self, values, edges):
        idx = torch.bucketize(values, edges)
        count = torch.zeros(edges.shape[0] + 1).index_add_(0, idx, torch.ones_like(values))
        empty = torch.where(count == 0)[0]
        count[empty] = 1.0
        return values / count[idx]


CASES = (
    Case(
        ConfusionMatrix,
        lambda: (torch.randn(6, 4), torch.tensor([0, 3, 1, 255, 2, 1])),
        Category.MASK,
        Repair.CONDITIONS,
    ),
    Case(
        ClassBalance,
        lambda: (torch.randn(6, 5), torch.randint(0, 5, (6,))),
        Category.BINCOUNT,
        Repair.CONDITIONS,
    ),
    Case(
        TopK,
        lambda: (torch.randn(8, 6), torch.randint(0, 5, (8,))),
        Category.SCALAR,
        Repair.CONDITIONS,
    ),
    Case(RewardNormalizer, lambda: (torch.randn(10),), Category.SCALAR, Repair.CONDITIONS),
    Case(
        BestTracker,
        lambda: (torch.randn(3, 2), torch.randn(3, 2)),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(
        ObserverScale, lambda: (torch.randn(4, 4),), Category.SCALAR, Repair.CONDITIONS, train=True
    ),
    Case(
        UniqueClasses,
        lambda: (torch.randn(6, 3), torch.tensor([0, 2, 2, 1, 0, 2])),
        Category.DYNAMIC_SHAPE,
        Repair.NONE,
    ),
    Case(PeakShift, lambda: (torch.randn(9),), Category.SCALAR, Repair.CONDITIONS),
    Case(ThresholdedMean, lambda: (torch.randn(20),), Category.MASK, Repair.CONDITIONS),
    Case(
        QuantileBins,
        lambda: (torch.rand(12), torch.tensor([0.2, 0.4, 0.6, 0.8, 1.2])),
        Category.NONZERO,
        Repair.CONDITIONS,
    ),
)
