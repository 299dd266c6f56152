"""FG904: few points are returned as they are, and the caller then changes them in place."""

import torch
from torch import nn


def spread(points, count):
    if points.shape[0] <= count:
        return points
    chosen = [0]
    distances = (points - points[0]).norm(dim=-1)
    while len(chosen) < count:
        farthest = int(distances.argmax())
        chosen.append(farthest)
        distances = torch.minimum(distances, (points - points[farthest]).norm(dim=-1))
    return points[chosen]


class Centers(nn.Module):
    def __init__(self, count=3, width=2):
        super().__init__()
        self.count = count
        self.out = nn.Linear(width, 4)

    def forward(self, points):
        centers = spread(points, self.count)
        centers.sub_(centers.mean(0, keepdim=True))
        return self.out(centers), centers


def build():
    torch.manual_seed(0)
    return Centers().eval(), (torch.randn(8, 2),)


def witnesses():
    """As many points as centers, fewer, none, equal ones, other dtypes and a gradient."""
    torch.manual_seed(1)
    points = torch.randn(8, 2)
    return [
        (points[:3],),
        (points[:2],),
        (points[:0],),
        (torch.ones(5, 2),),
        (points.clone().requires_grad_(),),
        (points.double(),),
    ]
