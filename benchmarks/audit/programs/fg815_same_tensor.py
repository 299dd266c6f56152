"""FG815: the pointers tell attention within a sequence, which is causal, from attention to another."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x, memory):
        scores = self.query(x) @ self.key(memory).transpose(-1, -2)
        scores = scores / x.shape[-1] ** 0.5
        if x.data_ptr() == memory.data_ptr():
            future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        return scores.softmax(-1) @ self.value(memory)


def build():
    torch.manual_seed(0)
    return Attention().eval(), (torch.randn(2, 5, 8), torch.randn(2, 5, 8))


def witnesses():
    """The same tensor twice, a tensor and its first steps, and equal values in two tensors."""
    torch.manual_seed(1)
    x = torch.randn(2, 5, 8)
    return [(x, x), (x, x[:, :3]), (x, x.clone())]
