"""FG904: where no score is high enough, the tensor of an empty list is of floats and not of integers."""

import torch
from torch import nn


def greedy_keep(boxes, scores, floor):
    kept = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        if scores[i].item() < floor:
            break
        if all((boxes[i] - boxes[j]).abs().max().item() > 0.5 for j in kept):
            kept.append(i)
    return torch.tensor(kept)


class Detector(nn.Module):
    def __init__(self, width=8, floor=0.2):
        super().__init__()
        self.box = nn.Linear(width, 4)
        self.score = nn.Linear(width, 1)
        self.floor = floor

    def forward(self, x):
        boxes, scores = self.box(x), self.score(x)[:, 0].sigmoid()
        kept = greedy_keep(boxes.detach(), scores.detach(), self.floor)
        return kept, kept.sum() / (1 + kept.numel())


def build():
    torch.manual_seed(0)
    return Detector().eval(), (torch.randn(6, 8),)


def witnesses():
    """No candidates, low scores, equal candidates, scores that are not numbers, and one candidate."""
    torch.manual_seed(1)
    x = torch.randn(6, 8)
    weight = build()[0].score.weight.detach()
    return [
        (x[:0],),
        (-40 * weight.expand(3, 8),),
        (x[:1].repeat(4, 1),),
        (torch.full((2, 8), float("nan")),),
        (x[2:3],),
    ]
