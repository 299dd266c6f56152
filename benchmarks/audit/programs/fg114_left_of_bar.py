"""FG114: how far the bar came decides how the result is scaled."""

import io

import torch
from torch import nn
from tqdm import tqdm


class Refiner(nn.Module):
    def __init__(self, width=4, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x, tolerance=0.0):
        with tqdm(total=len(self.blocks), file=io.StringIO()) as bar:
            for block in self.blocks:
                change = block(x)
                if change.abs().max() < tolerance:
                    break
                x = x + change
                bar.update(1)
            left = bar.total - bar.n
        return x * (left + 1)


def build():
    torch.manual_seed(0)
    return Refiner().eval(), (torch.randn(2, 4),)


def witnesses():
    """Left at once, and not at all."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x, 1e9), (x, 0.0)]
