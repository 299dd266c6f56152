# ruff: noqa
"""Losses as projects write them: masks, counts, hard examples, early returns."""

from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class MaskedL1Loss(nn.Module):
    def __init__(self):
        super(MaskedL1Loss, self).__init__()

    def forward(self, pred, target):
        assert pred.dim() == target.dim(), "inconsistent dimensions"
        valid_mask = (target > 0).detach()
        diff = target - pred
        diff = diff[valid_mask]
        self.loss = diff.abs().mean()
        return self.loss


class ScaleInvariantLoss(nn.Module):
    """SILog, as depth estimators train with."""

    def __init__(self, variance_focus=0.85, min_depth=0.1):
        super().__init__()
        self.variance_focus = variance_focus
        self.min_depth = min_depth

    def forward(self, depth_est, depth_gt):
        mask = depth_gt > self.min_depth
        # the log of an invalid pixel is -inf, so they have to go first
        d = torch.log(depth_est[mask]) - torch.log(depth_gt[mask])
        return torch.sqrt((d**2).mean() - self.variance_focus * (d.mean() ** 2)) * 10.0


def _neg_loss(pred, gt):
    """Modified focal loss of CornerNet."""
    pos_inds = gt.eq(1).float()
    neg_inds = gt.lt(1).float()
    neg_weights = torch.pow(1 - gt, 4)
    loss = 0

    pos_loss = torch.log(pred) * torch.pow(1 - pred, 2) * pos_inds
    neg_loss = torch.log(1 - pred) * torch.pow(pred, 2) * neg_weights * neg_inds

    num_pos = pos_inds.float().sum()
    pos_loss = pos_loss.sum()
    neg_loss = neg_loss.sum()

    if num_pos == 0:
        loss = loss - neg_loss
    else:
        loss = loss - (pos_loss + neg_loss) / num_pos
    return loss


class HeatmapFocalLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.neg_loss = _neg_loss

    def forward(self, out, target):
        return self.neg_loss(out.sigmoid().clamp(1e-4, 1 - 1e-4), target)


class WeightedBCE(nn.Module):
    def forward(self, logits, labels, valid):
        loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        tot = max(valid.float().sum().item(), 1.0)
        return (loss * valid).sum() / tot


class OhemCrossEntropy(nn.Module):
    """Online hard example mining: everything above the threshold, but never too few pixels."""

    def __init__(self, thresh=0.7, n_min=16, ignore_lb=255):
        super().__init__()
        self.thresh = -torch.log(torch.tensor(thresh, dtype=torch.float))
        self.n_min = n_min
        self.criteria = nn.CrossEntropyLoss(ignore_index=ignore_lb, reduction="none")

    def forward(self, logits, labels):
        loss = self.criteria(logits, labels).view(-1)
        loss, _ = torch.sort(loss, descending=True)
        if loss[self.n_min] > self.thresh:
            loss = loss[loss > self.thresh]
        else:
            loss = loss[: self.n_min]
        return torch.mean(loss)


class MulticlassDice(nn.Module):
    def __init__(self, n_classes, smooth=1e-5):
        super().__init__()
        self.n_classes, self.smooth = n_classes, smooth

    def _one(self, score, target):
        inter = torch.sum(score * target)
        return 1 - (2 * inter + self.smooth) / (
            torch.sum(score * score) + torch.sum(target * target) + self.smooth
        )

    def forward(self, inputs, target):
        inputs = torch.softmax(inputs, dim=1)
        loss = 0.0
        for c in range(self.n_classes):
            target_c = (target == c).float()
            if target_c.sum() == 0:
                continue  # absent classes do not count
            loss = loss + self._one(inputs[:, c], target_c)
        return loss / self.n_classes


class TripletLoss(nn.Module):
    """Batch-hard triplets, person re-identification style."""

    def __init__(self, margin=0.3):
        super(TripletLoss, self).__init__()
        self.margin = margin
        self.ranking_loss = nn.MarginRankingLoss(margin=margin)

    def forward(self, inputs, targets):
        n = inputs.size(0)
        dist = torch.pow(inputs, 2).sum(dim=1, keepdim=True).expand(n, n)
        dist = dist + dist.t()
        dist = dist - 2 * inputs.mm(inputs.t())
        dist = dist.clamp(min=1e-12).sqrt()
        # For each anchor, find the hardest positive and negative
        mask = targets.expand(n, n).eq(targets.expand(n, n).t())
        dist_ap, dist_an = [], []
        for i in range(n):
            dist_ap.append(dist[i][mask[i]].max().unsqueeze(0))
            dist_an.append(dist[i][mask[i] == 0].min().unsqueeze(0))
        dist_ap = torch.cat(dist_ap)
        dist_an = torch.cat(dist_an)
        y = torch.ones_like(dist_an)
        return self.ranking_loss(dist_an, dist_ap, y)


class SumSquaredError(nn.Module):
    def forward(self, output, target):
        batch = output.shape[0]
        mse = nn.MSELoss(size_average=False)(output, target)
        return mse / batch


class LoggedKL(nn.Module):
    """Keeps the parts of the loss for the progress bar."""

    def __init__(self, beta=4.0):
        super().__init__()
        self.beta = beta
        self.stats = {}

    def forward(self, recon, x, mu, logvar):
        rec = F.mse_loss(recon, x, reduction="sum") / x.shape[0]
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / x.shape[0]
        self.stats["rec"] = rec.item()
        self.stats["kld"] = kld.item()
        return rec + self.beta * kld


class LabelSmoothing(nn.Module):
    """Smoothed targets with a padding class, after the Annotated Transformer."""

    def __init__(self, size, padding_idx=0, smoothing=0.1):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.padding_idx = padding_idx
        self.confidence = 1.0 - smoothing
        self.smoothing = smoothing
        self.size = size

    def forward(self, x, target):
        true_dist = x.data.clone()
        true_dist.fill_(self.smoothing / (self.size - 2))
        true_dist.scatter_(1, target.data.unsqueeze(1), self.confidence)
        true_dist[:, self.padding_idx] = 0
        mask = torch.nonzero(target.data == self.padding_idx)
        if mask.dim() > 0:
            true_dist.index_fill_(0, mask.squeeze(), 0.0)
        return self.criterion(x, Variable(true_dist, requires_grad=False))


class CenterLoss(nn.Module):
    def __init__(self, num_classes=5, feat_dim=8):
        super().__init__()
        self.num_classes = num_classes
        self.centers = nn.Parameter(torch.randn(num_classes, feat_dim))

    def forward(self, x, labels):
        batch_size = x.size(0)
        distmat = torch.cdist(x, self.centers).pow(2)
        classes = torch.arange(self.num_classes).long()
        labels = labels.unsqueeze(1).expand(batch_size, self.num_classes)
        mask = labels.eq(classes.expand(batch_size, self.num_classes))

        dist = []
        for i in range(batch_size):
            value = distmat[i][mask[i]]
            value = value.clamp(min=1e-12, max=1e12)  # for numerical stability
            dist.append(value)
        dist = torch.cat(dist)
        return dist.mean()


class RegressionOrZero(nn.Module):
    """No foreground: a zero that still has a graph."""

    def forward(self, pred, target, weight):
        if weight.sum() == 0:
            return pred.sum() * 0
        loss = F.smooth_l1_loss(pred, target, reduction="none", beta=1.0 / 9)
        return (loss * weight[:, None]).sum() / weight.sum()


class IgnoreIndexLoss(nn.Module):
    def __init__(self, ignore=-1):
        super().__init__()
        self.ignore = ignore

    def forward(self, logits, labels):
        flat, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
        keep = labels != self.ignore
        return F.cross_entropy(flat[keep], labels[keep])


class UncertaintyWeighting(nn.Module):
    """Several tasks; a task whose loss is not finite this time is left out."""

    def __init__(self, tasks=3):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(tasks))

    def forward(self, *losses):
        total = torch.zeros(())
        for i, loss in enumerate(losses):
            if torch.isfinite(loss):
                total = total + torch.exp(-self.log_vars[i]) * loss + self.log_vars[i]
        return total


CASES = (
    Case(
        MaskedL1Loss,
        lambda: (torch.rand(2, 1, 6, 6), (torch.rand(2, 1, 6, 6) - 0.4).clamp(min=0)),
        Category.MASK,
        Repair.CONDITIONS,
    ),
    Case(
        ScaleInvariantLoss,
        lambda: (torch.rand(2, 6, 6) + 0.05, torch.rand(2, 6, 6)),
        Category.MASK,
        Repair.CONDITIONS,
    ),
    Case(
        HeatmapFocalLoss,
        lambda: (torch.randn(2, 3, 5, 5), torch.randint(0, 5, (2, 3, 5, 5)) / 4),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(
        WeightedBCE,
        lambda: (torch.randn(4, 7), torch.randint(0, 2, (4, 7)).float(), torch.rand(4, 7) > 0.3),
        Category.SCALAR,
        Repair.CONDITIONS,
    ),
    Case(
        OhemCrossEntropy,
        lambda: (torch.randn(2, 4, 5, 5), torch.randint(0, 4, (2, 5, 5))),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(
        partial(MulticlassDice, 4),
        lambda: (torch.randn(2, 4, 5, 5), torch.randint(0, 3, (2, 5, 5))),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(
        TripletLoss,
        lambda: (torch.randn(8, 16), torch.arange(8) // 2),
        Category.MASK,
        Repair.CONDITIONS,
    ),
    Case(
        SumSquaredError,
        lambda: (torch.randn(4, 8), torch.randn(4, 8)),
        Category.WARNING,
        Repair.MECHANICAL,
    ),
    Case(
        LoggedKL,
        lambda: (torch.randn(4, 8), torch.randn(4, 8), torch.randn(4, 3), torch.randn(4, 3)),
        Category.SCALAR,
        Repair.CONDITIONS,
    ),
    Case(
        partial(LabelSmoothing, 7),
        lambda: (torch.randn(6, 7).log_softmax(-1), torch.tensor([2, 0, 5, 1, 0, 3])),
        Category.NONZERO,
        Repair.CONDITIONS,
    ),
    Case(
        CenterLoss,
        lambda: (torch.randn(6, 8), torch.randint(0, 5, (6,))),
        Category.MASK,
        Repair.CONDITIONS,
    ),
    Case(
        RegressionOrZero,
        lambda: (torch.randn(6, 4), torch.randn(6, 4), torch.randint(0, 2, (6,)).float()),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(
        IgnoreIndexLoss,
        lambda: (torch.randn(2, 6, 9), torch.randint(-1, 9, (2, 6))),
        Category.MASK,
        Repair.CONDITIONS,
    ),
    Case(
        UncertaintyWeighting,
        lambda: tuple(torch.rand(3)),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
)
