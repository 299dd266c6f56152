"""FG412: clamping the order makes indices occur twice, and any of their marks must count."""

import torch
from torch import nn


class HotTokenFilter(nn.Module):
    def __init__(self, vocabulary, limit):
        super().__init__()
        self.vocabulary = vocabulary
        self.limit = limit

    def forward(self, scores):
        ordered, order = scores.sort(descending=True)
        order.clamp_(max=self.vocabulary - 1)
        hot = ordered > self.limit
        scores[order[hot]] = 0.0
        return scores.sum(), order


def build():
    torch.manual_seed(0)
    return HotTokenFilter(8, 0.5).eval(), (torch.randn(8),)


def witnesses():
    """Padding behind the vocabulary that is hot in its first place, and in its last one."""
    return [
        (torch.tensor([0.1, 0.2, 0.3, 0.0, 0.1, 0.2, 0.3, 0.4, 2.0, 0.1, -1.0]),),
        (torch.tensor([0.1, 0.9, 0.3, 0.0, 0.1, 0.2, 0.3, 0.0, 0.1, 0.1, 3.0]),),
    ]
