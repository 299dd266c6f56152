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
        finite = torch.cat((boxes, scores[:, None]), 1).isfinite().all(1)
        if not finite.all():
            if self.training:
                raise FloatingPointError("a proposal is not finite")
            boxes, scores = boxes[finite], scores[finite]
        sides = boxes[:, 2:] - boxes[:, :2]
        return boxes, scores * (sides > 0).all(dim=1)


def build():
    torch.manual_seed(0)
    corner = torch.rand(10, 2)
    return ProposalFilter().eval(), (torch.cat((corner, corner + 0.5), 1), torch.randn(10))
