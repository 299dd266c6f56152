"""A causal model refuses a batch that is padded on the right."""

import torch
from torch import nn


class CausalBlock(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.proj = nn.Linear(width, width)

    def _causal_mask(self, mask, length):
        if mask is not None:
            ending = int(mask[:, -1].sum())
            if ending < len(mask):
                raise ValueError("a row ends in padding: pad on the left")
        return torch.ones(length, length, dtype=torch.bool).tril()

    def forward(self, x, mask=None):
        allowed = self._causal_mask(mask, x.shape[1])
        scores = (x @ x.transpose(1, 2)).masked_fill(~allowed, float("-inf"))
        return self.proj(scores.softmax(-1) @ x)


def build():
    torch.manual_seed(0)
    mask = torch.ones(2, 5, dtype=torch.long)
    mask[0, :2] = 0
    return CausalBlock(), (torch.randn(2, 5, 8), mask)
