"""Attention over packed images splits queries, keys and values by the cumulative lengths."""

import torch
from torch import nn
from torch.nn import functional as F


class PackedVisionAttention(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x, ends):
        q, k, v = self.qkv(x).view(x.shape[0], 3, self.heads, -1).permute(1, 2, 0, 3)
        lengths = (ends[1:] - ends[:-1]).tolist()
        pieces = [torch.split(t, lengths, dim=1) for t in (q, k, v)]
        done = [F.scaled_dot_product_attention(a, b, c) for a, b, c in zip(*pieces, strict=True)]
        return self.out(torch.cat(done, dim=1).transpose(0, 1).reshape(x.shape[0], -1))


def build():
    torch.manual_seed(0)
    ends = torch.tensor([0, 4, 9], dtype=torch.int32)
    return PackedVisionAttention(), (torch.randn(9, 16), ends)
