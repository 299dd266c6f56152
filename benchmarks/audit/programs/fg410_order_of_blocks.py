"""FG410: only a block that runs shortens the rows, and the blocks after it see them so."""

import torch
from torch import nn


class RoutedBlocks(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleDict({f"block_{i}": nn.Linear(4, 4) for i in range(blocks)})

    def forward(self, x, route):
        counts = torch.bincount(route, minlength=len(self.blocks))
        active = (counts > 0).nonzero()
        for i in active:
            rows = route == i[0]
            x = torch.where(rows[:, None], self.blocks[f"block_{i[0]}"](x).relu(), x)
            x = x / x.norm(dim=1, keepdim=True).amax().clamp(min=1.0)
        return x


def build():
    torch.manual_seed(0)
    return RoutedBlocks().eval(), (torch.randn(4, 4) / 9, torch.tensor([0, 2, 2, 0]))


def witnesses():
    """Long rows that each block shortens, an index too large, a negative one, NaN in another row,
    none.
    """
    x = torch.linspace(-9, 9, 12).view(3, 4)
    broken = x.clone()
    broken[2] = float("nan")
    return [
        (x, torch.tensor([1, 1, 1])),
        (x.clone().requires_grad_(), torch.tensor([2, 0, 2])),
        (x, torch.tensor([0, 3, 0])),
        (x, torch.tensor([0, -1, 0])),
        (broken.requires_grad_(), torch.tensor([1, 1, 0])),
        (x[:0], torch.zeros(0, dtype=torch.int64)),
        (x, torch.tensor([0, 1])),
        (x, torch.tensor([0.0, 1.0, 2.0])),
    ]
