"""Tokens per expert are counted to balance the load."""

import torch
from torch import nn


class LoadBalance(nn.Module):
    def __init__(self, width: int = 6, experts: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = experts

    def forward(self, tokens):
        probabilities = self.gate(tokens).softmax(-1)
        picks = probabilities.argmax(-1)
        counts = torch.bincount(picks, minlength=self.experts)
        share = counts / counts.sum()
        return self.experts * (share * probabilities.mean(0)).sum()


def build():
    torch.manual_seed(0)
    return LoadBalance(), (torch.randn(10, 6),)
