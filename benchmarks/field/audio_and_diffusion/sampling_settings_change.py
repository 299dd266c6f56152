"""A user turns temperature and top-k while a speech model generates."""

import torch
from torch import nn


class NextToken(nn.Module):
    def __init__(self, width: int = 6, words: int = 12) -> None:
        super().__init__()
        self.head = nn.Linear(width, words)

    def forward(self, hidden, temperature: float, top_k: int):
        logits = self.head(hidden[:, -1]) / max(temperature, 1e-5)
        lowest = logits.topk(top_k).values[:, -1:]
        return logits.masked_fill(logits < lowest, float("-inf")).softmax(-1)


def build():
    torch.manual_seed(0)
    return NextToken(), (torch.randn(2, 3, 6), 0.7, 5)


build_calls = [
    (torch.ones(2, 3, 6) * i, temperature, top_k)
    for i, (temperature, top_k) in enumerate([(0.8, 5), (0.9, 8), (1.1, 3), (0.6, 10)], 1)
]
