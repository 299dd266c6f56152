"""A layer notes the scale of an adapter in a dict when the adapter is first asked for."""

import torch
from torch import nn


class AdaptedLinear(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.base = nn.Linear(width, width)
        self.ranks = {"sketch": 2, "photo": 4, "pixel": 3}
        self.down = nn.ModuleDict({n: nn.Linear(width, r) for n, r in self.ranks.items()})
        self.up = nn.ModuleDict({n: nn.Linear(r, width) for n, r in self.ranks.items()})
        self.scaling: dict[str, float] = {}

    def register(self, name, alpha: float = 8.0):
        self.scaling[name] = alpha / self.ranks[name]

    def forward(self, x, name):
        if name not in self.scaling:
            self.register(name)
        return self.base(x) + self.up[name](self.down[name](x)) * self.scaling[name]


def build():
    torch.manual_seed(0)
    return AdaptedLinear(), (torch.randn(3, 6), "sketch")


build_calls = [
    (torch.ones(3, 6) * i, name)
    for i, name in enumerate(["sketch", "photo", "sketch", "pixel", "photo"], 1)
]
