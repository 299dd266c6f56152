"""FG816: the largest of no positions raises, though the table has a row for each of them."""

import torch
from torch import nn


class RotaryTable(nn.Module):
    def __init__(self, width=8, max_length=16):
        super().__init__()
        self.frequencies = 100.0 ** -torch.linspace(0, 1, width // 2)
        self._set_cos_sin_cache(max_length)

    def _set_cos_sin_cache(self, length):
        self.max_length = length
        angles = torch.outer(torch.arange(int(length)).float(), self.frequencies)
        self.cos_cached = angles.cos()
        self.sin_cached = angles.sin()

    def forward(self, x, position_ids):
        length = position_ids.max() + 1
        if length > self.max_length:
            self._set_cos_sin_cache(length)
        cos, sin = self.cos_cached[position_ids], self.sin_cached[position_ids]
        even, odd = x.chunk(2, -1)
        return torch.cat([even * cos - odd * sin, odd * cos + even * sin], -1)


def build():
    torch.manual_seed(0)
    return RotaryTable().eval(), (torch.randn(2, 5, 8), torch.arange(5).expand(2, 5))


def witnesses():
    """No step, no sequence, positions from the end of the table, and beyond it."""
    torch.manual_seed(1)
    x = torch.randn(2, 5, 8)
    ids = torch.arange(5).expand(2, 5)
    return [(x[:, :0], ids[:, :0]), (x[:0], ids[:0]), (x, ids - 5), (x, ids * 7)]
