"""FG202: 1 - torch.equal(…) and -torch.equal(…) are numbers, and a bool tensor has no minus."""

import torch
from torch import nn


class ResidualUnlessSame(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, query, key):
        cross = 1 - torch.equal(query, key)
        close = torch.allclose(query, key, atol=1e-3)
        return self.proj(query) + key * cross - close * 0.5


def build():
    torch.manual_seed(0)
    return ResidualUnlessSame(4).eval(), (torch.randn(2, 4), torch.randn(2, 4))


def witnesses():
    """The same tensor twice, the same one with NaN, infinities, and another dtype."""
    torch.manual_seed(1)
    x = torch.randn(2, 4, requires_grad=True)
    broken = torch.tensor([[1.0, float("nan"), 0.0, 2.0]])
    endless = torch.tensor([[1.0, float("inf"), 0.0, -float("inf")]])
    return [
        (x, x),
        (broken, broken),
        (endless, endless.clone()),
        (torch.randn(2, 4), torch.ones(2, 4).double()),
    ]
