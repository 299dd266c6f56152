"""A detector scales each training image to one of several sizes, drawn by torch's generator."""

import torch
from torch import nn
from torch.nn import functional as F


class ResizeForTraining(nn.Module):
    def __init__(self, sizes=(8, 10, 12), longest: int = 20) -> None:
        super().__init__()
        self.sizes, self.longest = list(sizes), longest
        self.stem = nn.Conv2d(3, 4, 3, padding=1)

    def pick(self, options):
        place = int(torch.rand(()).item() * len(options))
        return options[place]

    def forward(self, image, boxes):
        old = image.shape[-2:]
        size = self.pick(self.sizes) if self.training else self.sizes[-1]
        factor = min(size / min(old), self.longest / max(old))
        new = [int(side * factor) for side in old]
        image = F.interpolate(image[None], size=new, mode="bilinear")
        height, width = (fresh / side for fresh, side in zip(new, old, strict=True))
        boxes = boxes * torch.tensor([width, height, width, height])
        return self.stem(image), boxes


def build():
    torch.manual_seed(0)
    boxes = torch.tensor([[1.0, 1.0, 6.0, 5.0]])
    return ResizeForTraining(), (torch.rand(3, 9, 12), boxes)
