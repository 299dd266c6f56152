"""A fast attention path drops the mask where no token is padding."""

import torch
from torch import nn
from torch.nn import functional as F


class FastAttention(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.qkv, self.heads = nn.Linear(width, 3 * width), heads

    def useful_mask(self, mask):
        if mask is None or mask.bool().all():
            return None
        return mask

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = self.useful_mask(mask)
        if mask is not None:
            mask = mask[:, None, None, :].bool()
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.transpose(1, 2).reshape(batch, length, width)


def build():
    torch.manual_seed(0)
    return FastAttention(), (torch.randn(2, 6, 16), torch.ones(2, 6))
