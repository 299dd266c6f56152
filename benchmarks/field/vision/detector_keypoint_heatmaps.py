"""Heatmaps of keypoints are scaled to the size of their boxes before the peaks are read."""

import torch
from torch import nn
from torch.nn import functional as F


class KeypointReader(nn.Module):
    def __init__(self, width: int = 4, keypoints: int = 3) -> None:
        super().__init__()
        self.head = nn.Conv2d(width, keypoints, 1)

    def forward(self, features, boxes):
        maps = self.head(features)
        sides = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1)
        whole = sides.ceil()
        points, scores = [], []
        for number, heat in enumerate(maps):
            width, height = int(whole[number, 0].item()), int(whole[number, 1].item())
            scaled = F.interpolate(heat[:, None], size=(height, width), mode="bicubic")[:, 0]
            score, peak = scaled.flatten(1).max(1)
            x = (peak % width + 0.5) * sides[number, 0] / width + boxes[number, 0]
            y = (peak // width + 0.5) * sides[number, 1] / height + boxes[number, 1]
            points.append(torch.stack((x, y), 1))
            scores.append(score)
        return torch.stack(points), torch.stack(scores)


def build():
    torch.manual_seed(0)
    boxes = torch.tensor([[0.0, 0.0, 7.3, 5.1], [2.0, 1.0, 11.5, 9.2]])
    return KeypointReader(), (torch.randn(2, 4, 6, 6), boxes)
