"""The choice of an attention kernel imports an optional package inside the forward pass."""

import torch
from torch import nn
from torch.nn import functional as F


def load_kernel():
    try:
        import flash_attention_interface_that_is_missing as kernels  # type: ignore[import-not-found]

        return kernels.attention
    except ImportError:
        return None


class ChosenAttention(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        kernel = load_kernel()
        if kernel is not None:
            return kernel(q, k, v)
        return F.scaled_dot_product_attention(q, k, v)


def build():
    torch.manual_seed(0)
    return ChosenAttention(), (torch.randn(2, 4, 8),)
