# ruff: noqa
"""Detection heads: anchors, matching, hard negatives, pyramids, decoding."""

import math
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.autograd import Variable

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


def box_area(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(a, b):
    lt = torch.max(a[:, None, :2], b[:, :2])
    rb = torch.min(a[:, None, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    return inter / (box_area(a)[:, None] + box_area(b) - inter)


def boxes(n):
    corner = torch.rand(n, 2) * 8
    return torch.cat([corner, corner + 1 + torch.rand(n, 2) * 6], 1)


class AnchorMatcher(nn.Module):
    """Labels of anchors: 1 foreground, 0 background, -1 don't care."""

    def __init__(self, low=0.2, high=0.5):
        super().__init__()
        self.low, self.high = low, high

    def forward(self, anchors, gt, gt_labels):
        overlaps = box_iou(anchors, gt)
        max_overlap, matched = overlaps.max(dim=1)
        labels = torch.full((anchors.shape[0],), -1, dtype=torch.long)
        labels[max_overlap < self.low] = 0  # background
        pos = max_overlap >= self.high
        labels[pos] = gt_labels[matched[pos]]  # foreground
        return labels, matched


class SmallBoxFilter(nn.Module):
    def __init__(self, min_size=3.0):
        super().__init__()
        self.min_size = min_size

    def forward(self, proposals, scores):
        ws = proposals[:, 2] - proposals[:, 0]
        hs = proposals[:, 3] - proposals[:, 1]
        keep = torch.nonzero((ws >= self.min_size) & (hs >= self.min_size)).squeeze(1)
        return proposals[keep], scores[keep]


class YOLOLayer(nn.Module):
    """Detection layer with offsets that are made when the grid size changes."""

    def __init__(self, anchors, num_classes, img_dim=32):
        super().__init__()
        self.anchors = anchors
        self.num_anchors = len(anchors)
        self.num_classes = num_classes
        self.img_dim = img_dim

    def forward(self, x):
        FloatTensor = torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor
        nB, nG = x.size(0), x.size(2)
        stride = self.img_dim / nG
        prediction = x.view(nB, self.num_anchors, 5 + self.num_classes, nG, nG)
        prediction = prediction.permute(0, 1, 3, 4, 2).contiguous()
        cx = torch.sigmoid(prediction[..., 0])
        cy = torch.sigmoid(prediction[..., 1])
        w, h = prediction[..., 2], prediction[..., 3]
        grid_x = torch.arange(nG).repeat(nG, 1).view([1, 1, nG, nG]).type(FloatTensor)
        grid_y = torch.arange(nG).repeat(nG, 1).t().view([1, 1, nG, nG]).type(FloatTensor)
        scaled = FloatTensor([(a_w / stride, a_h / stride) for a_w, a_h in self.anchors])
        anchor_w = Variable(scaled[:, 0:1].view((1, self.num_anchors, 1, 1)))
        anchor_h = Variable(scaled[:, 1:2].view((1, self.num_anchors, 1, 1)))
        out = torch.stack(
            [cx + grid_x, cy + grid_y, torch.exp(w) * anchor_w, torch.exp(h) * anchor_h], -1
        )
        return out * stride


class MultiBoxLoss(nn.Module):
    """SSD: three negatives, the hardest, for each positive."""

    def __init__(self, num_classes=4, neg_pos_ratio=3):
        super().__init__()
        self.num_classes = num_classes
        self.negpos_ratio = neg_pos_ratio

    def forward(self, loc_data, conf_data, loc_t, conf_t):
        pos = conf_t > 0
        pos_idx = pos.unsqueeze(pos.dim()).expand_as(loc_data)
        loss_l = F.smooth_l1_loss(loc_data[pos_idx], loc_t[pos_idx], reduction="sum")

        # Compute max conf across batch for hard negative mining
        loss_c = (
            F.cross_entropy(conf_data.view(-1, self.num_classes), conf_t.view(-1), reduction="none")
            .view(conf_t.shape)
            .detach()
        )
        loss_c[pos] = 0  # filter out pos boxes for now
        _, loss_idx = loss_c.sort(1, descending=True)
        _, idx_rank = loss_idx.sort(1)
        num_pos = pos.long().sum(1, keepdim=True)
        num_neg = torch.clamp(self.negpos_ratio * num_pos, max=pos.size(1) - 1)
        neg = idx_rank < num_neg.expand_as(idx_rank)

        conf_p = conf_data[pos | neg].view(-1, self.num_classes)
        loss_c = F.cross_entropy(conf_p, conf_t[pos | neg], reduction="sum")
        N = max(num_pos.data.sum().item(), 1)
        return loss_l / N, loss_c / N


class LevelPooler(nn.Module):
    """Each box is pooled from the pyramid level of its size."""

    def __init__(self, levels=2, channels=4):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(channels, channels) for _ in range(levels)])

    def forward(self, feats, rois):
        sizes = torch.sqrt(box_area(rois))
        level = torch.floor(torch.log2(sizes / 3 + 1e-6)).clamp(0, len(self.heads) - 1)
        out = torch.zeros(rois.shape[0], feats.shape[1])
        for i, head in enumerate(self.heads):
            idx = torch.where(level == i)[0]
            if idx.numel() == 0:
                continue
            out[idx] = head(feats[idx])
        return out


class PositiveLocationLoss(nn.Module):
    """FCOS: regression on the positive locations only."""

    def forward(self, reg_pred, centerness, labels, reg_target):
        pos_inds = torch.nonzero(labels > 0).squeeze(1)
        reg = reg_pred[pos_inds]
        ctr = centerness[pos_inds]
        if pos_inds.numel() > 0:
            reg_loss = F.l1_loss(reg, reg_target[pos_inds])
            ctr_loss = F.binary_cross_entropy_with_logits(ctr, torch.ones_like(ctr))
        else:
            reg_loss = reg.sum()
            ctr_loss = ctr.sum()
        return reg_loss + ctr_loss


class BoxScaler(nn.Module):
    def forward(self, image, boxes):
        h, w = torch.tensor(image.size()[2:]).tolist()
        scale = torch.tensor([w, h, w, h], dtype=boxes.dtype)
        return boxes / scale


class GridAnchors(nn.Module):
    """Centers of all cells, of a map whose size follows from the image's."""

    def __init__(self, strides=(4, 8)):
        super().__init__()
        self.strides = strides
        self.head = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, images):
        y = self.head(images)
        centers = []
        for s in self.strides:
            rows, cols = (np.ceil(np.array(images.shape[2:]) / s)).astype(int).tolist()
            ys, xs = torch.meshgrid(
                torch.arange(rows) * s + s // 2, torch.arange(cols) * s + s // 2, indexing="ij"
            )
            centers.append(torch.stack([xs, ys], -1).reshape(-1, 2))
        return y.mean((2, 3)), torch.cat(centers)


class ScoreThreshold(nn.Module):
    """Scores below the threshold count half, and their boxes are clipped."""

    def __init__(self, thresh=0.5):
        super().__init__()
        self.thresh = thresh
        self.cls = nn.Linear(4, 3)

    def forward(self, boxes):
        scores = self.cls(boxes).softmax(-1)
        best, _ = scores.max(-1)
        result = boxes.clone()
        weak = best < self.thresh
        best[weak] *= 0.5
        result[weak] = torch.clamp(result[weak], 0, 10)
        return result, best


class OffsetTargets(nn.Module):
    """Log-encoded offsets; an empty match gives zeros."""

    def __init__(self, variance=(0.1, 0.2)):
        super().__init__()
        self.variance = variance

    def encode(self, matched, priors):
        g_cxcy = (matched[:, :2] + matched[:, 2:]) / 2 - priors[:, :2]
        g_cxcy = g_cxcy / (self.variance[0] * priors[:, 2:])
        g_wh = (matched[:, 2:] - matched[:, :2]) / priors[:, 2:]
        return torch.cat([g_cxcy, torch.log(g_wh) / self.variance[1]], 1)

    def forward(self, truths, priors, thresh):
        corner = torch.cat(
            [priors[:, :2] - priors[:, 2:] / 2, priors[:, :2] + priors[:, 2:] / 2], 1
        )
        overlaps = box_iou(corner, truths)
        best, idx = overlaps.max(1)
        if best.max() < thresh:
            return torch.zeros_like(priors)
        return self.encode(truths[idx], priors)


class HungarianCost(nn.Module):
    """The sizes of targets decide where the cost matrix is cut."""

    def forward(self, logits, labels, sizes):
        cost = -logits.softmax(-1)[..., labels]
        parts = cost.flatten(0, 1).split(sizes.tolist(), -1)
        return [p.min(0).values for p in parts]


CASES = (
    Case(
        AnchorMatcher,
        lambda: (boxes(12), boxes(3), torch.tensor([2, 1, 3])),
        Category.MASKED_ASSIGNMENT,
        Repair.MECHANICAL,
    ),
    Case(SmallBoxFilter, lambda: (boxes(10), torch.rand(10)), Category.NONZERO, Repair.NONE),
    Case(
        partial(YOLOLayer, [(4, 5), (8, 8)], 3),
        lambda: (torch.randn(2, 16, 4, 4),),
        Category.VARIABLE,
        Repair.MECHANICAL,
    ),
    Case(
        MultiBoxLoss,
        lambda: (
            torch.randn(2, 20, 4),
            torch.randn(2, 20, 4),
            torch.randn(2, 20, 4),
            torch.randint(0, 4, (2, 20)) * (torch.rand(2, 20) > 0.7),
        ),
        Category.MASK,
        Repair.CONDITIONS,
    ),
    Case(LevelPooler, lambda: (torch.randn(9, 4), boxes(9)), Category.NONZERO, Repair.CONDITIONS),
    Case(
        PositiveLocationLoss,
        lambda: (torch.randn(9, 4), torch.randn(9), torch.randint(-1, 2, (9,)), torch.randn(9, 4)),
        Category.NONZERO,
        Repair.CONDITIONS,
    ),
    Case(
        BoxScaler, lambda: (torch.randn(1, 3, 6, 8), boxes(4)), Category.SCALAR, Repair.MECHANICAL
    ),
    Case(
        GridAnchors, lambda: (torch.randn(1, 3, 18, 22),), Category.NUMPY_SCALAR, Repair.MECHANICAL
    ),
    Case(ScoreThreshold, lambda: (boxes(8),), Category.MASKED_ASSIGNMENT, Repair.MECHANICAL),
    Case(
        OffsetTargets,
        lambda: (boxes(3), boxes(6), torch.tensor(0.05)),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(
        HungarianCost,
        lambda: (torch.randn(2, 5, 4), torch.tensor([1, 0, 3]), torch.tensor([1, 2])),
        Category.SCALAR,
        Repair.NONE,
    ),
)
