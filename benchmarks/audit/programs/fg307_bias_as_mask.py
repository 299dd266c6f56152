"""FG307: a mask of floats that has no zero counts as full, though attention would add it."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def attend(self, q, k, v, mask):
        if mask.all():
            return F.scaled_dot_product_attention(q, k, v)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def forward(self, x, masks):
        for mask in masks:
            q, k, v = self.qkv(x).chunk(3, -1)
            x = x + self.attend(q, k, v, mask)
        return x


def build():
    torch.manual_seed(0)
    full = torch.ones(4, 4, dtype=torch.bool)
    return Attention().eval(), (torch.randn(2, 4, 8), [full, full.tril()])


def witnesses():
    """Masks of floats with zeros and without, one of integers, one of another size, a row of none."""
    x = torch.linspace(-1, 1, 64).view(2, 4, 8)
    slope = torch.arange(16.0).view(4, 4) / 4
    return [
        (x, [slope, slope + 1]),
        (x, [torch.ones(4, 4, dtype=torch.int64)]),
        (x, [torch.ones(3, dtype=torch.bool)]),
        (x, [torch.ones(0, dtype=torch.bool)]),
        (x, [torch.tensor([True, True, True, False])[:, None].expand(4, 4)]),
        (x, []),
    ]
