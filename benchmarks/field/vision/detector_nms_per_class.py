"""Suppression class by class, with a greedy loop inside."""

import torch
from torch import nn


def overlap(box, boxes):
    low, high = torch.maximum(box[:2], boxes[:, :2]), torch.minimum(box[2:], boxes[:, 2:])
    shared = (high - low).clamp(min=0).prod(1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return shared / ((box[2:] - box[:2]).prod() + areas - shared)


class ClassNms(nn.Module):
    threshold = 0.5

    def forward(self, boxes, scores, classes):
        keep = torch.zeros_like(scores, dtype=torch.bool)
        for label in torch.unique(classes).tolist():
            left = torch.where(classes == label)[0]
            left = left[scores[left].argsort(descending=True)]
            while left.numel() > 0:
                best, left = left[0], left[1:]
                keep[best] = True
                left = left[overlap(boxes[best], boxes[left]) <= self.threshold]
        return torch.where(keep)[0]


def build():
    torch.manual_seed(0)
    corner = torch.rand(8, 2)
    boxes = torch.cat((corner, corner + 0.6), 1)
    return ClassNms(), (boxes, torch.rand(8), torch.tensor([0, 1, 0, 1, 0, 0, 1, 1]))
