"""Proposals that are not finite are dropped, and stop training."""

import torch
from torch import nn


class ProposalFilter(nn.Module):
    def __init__(self, keep: int = 6) -> None:
        super().__init__()
        self.keep = keep

    def forward(self, boxes, scores):
        scores, order = scores.topk(self.keep)
        boxes = boxes[order]
        valid = torch.isfinite(boxes).all(dim=1) & torch.isfinite(scores)
        if not valid.all():
            if self.training:
                raise FloatingPointError("boxes or scores hold Inf or NaN: training diverged")
            boxes, scores = boxes[valid], scores[valid]
        sides = boxes[:, 2:] - boxes[:, :2]
        return boxes, scores * (sides > 0).all(dim=1)


def build():
    torch.manual_seed(0)
    corner = torch.rand(10, 2)
    return ProposalFilter().eval(), (torch.cat((corner, corner + 0.5), 1), torch.randn(10))
