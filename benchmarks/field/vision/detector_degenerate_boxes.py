"""A detector tells which target box has no area before it trains on the targets."""

import torch
from torch import nn


class BoxLoss(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.head = nn.Linear(width, 4)

    def forward(self, features, targets):
        for number, target in enumerate(targets):
            boxes = target["boxes"]
            flat = (boxes[:, 2:] - boxes[:, :2]).amin(1) <= 0
            if flat.any():
                wrong = boxes[flat.int().argmax()].tolist()
                raise ValueError(f"target {number} has a box without area: {wrong}")
        wanted = torch.stack([target["boxes"].mean(0) for target in targets])
        return nn.functional.smooth_l1_loss(self.head(features), wanted)


def build():
    torch.manual_seed(0)
    targets = []
    for count in (3, 2):
        corner = torch.rand(count, 2)
        targets.append({"boxes": torch.cat((corner, corner + 1), 1), "labels": torch.ones(count)})
    return BoxLoss(), (torch.randn(2, 8), targets)
