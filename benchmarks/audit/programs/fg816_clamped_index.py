"""FG816: the index into the table is clamped, so that a table too short does not raise."""

import torch
from torch import nn


class Sinusoids(nn.Module):
    def __init__(self, width=8, length=16):
        super().__init__()
        self.width = width
        self.out = nn.Linear(width, width)
        self._set_table(length)

    def _set_table(self, length):
        self.length = int(length)
        rates = 10.0 ** -torch.linspace(0, 2, self.width // 2)
        angles = torch.arange(self.length).float()[:, None] * rates
        self.table = torch.cat([angles.sin(), angles.cos()], -1)

    def forward(self, x, positions):
        length = positions.max() + 1
        if length > self.length:
            self._set_table(length)
        known = positions.clamp(min=0, max=self.table.shape[0] - 1)
        return self.out(x + self.table[known])


def build():
    torch.manual_seed(0)
    return Sinusoids().eval(), (torch.randn(2, 5, 8), torch.arange(5).expand(2, 5))


def witnesses():
    """Positions beyond the table, at its last row, one further, and before its first."""
    torch.manual_seed(1)
    x = torch.randn(2, 5, 8)
    steps = torch.arange(5).expand(2, 5)
    return [(x, steps + 40), (x, steps + 11), (x, steps + 12), (x, steps - 9)]
