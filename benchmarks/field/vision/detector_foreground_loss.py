"""A one-stage detector adds its box loss if any anchor was assigned."""

import torch
from torch import nn


class AssignedLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bce = nn.BCEWithLogitsLoss(reduction="none")

    def forward(self, boxes, scores, wanted_boxes, wanted_scores, foreground):
        loss = torch.zeros(2)
        total = wanted_scores.sum().clamp(min=1)
        loss[1] = self.bce(scores, wanted_scores).sum() / total
        if foreground.sum() > 0:
            weight = wanted_scores.sum(-1)[foreground].unsqueeze(-1)
            gap = (boxes[foreground] - wanted_boxes[foreground]).abs()
            loss[0] = (gap * weight).sum() / total
        return loss.sum(), loss.detach()


def build():
    torch.manual_seed(0)
    scores = torch.randn(2, 6, 3, requires_grad=True)
    boxes = torch.rand(2, 6, 4, requires_grad=True)
    foreground = torch.tensor([[1, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0, 0]]).bool()
    return AssignedLoss(), (boxes, scores, torch.rand(2, 6, 4), torch.rand(2, 6, 3), foreground)
