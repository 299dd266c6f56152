"""FG301: a batch without labels holds -1 alone, no class, so no loss may be computed of it."""

import torch
import torch.nn.functional as F
from torch import nn


class TokenClassifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.head = nn.Linear(width, classes)

    def forward(self, hidden, labels):
        logits = self.head(hidden)
        mask = labels >= 0
        if mask.any():
            loss = F.cross_entropy(logits[mask], labels[mask])
        else:
            loss = logits.sum() * 0
        return logits, loss


def build():
    torch.manual_seed(0)
    return TokenClassifier(4, 3).train(), (torch.randn(5, 4), torch.tensor([0, 2, -1, 1, -1]))


def witnesses():
    """No labels, no tokens, and infinite logits where there is no label."""
    torch.manual_seed(1)
    broken = torch.randn(2, 4)
    broken[1] = float("inf")
    return [
        (torch.randn(4, 4), torch.full((4,), -1)),
        (torch.randn(0, 4), torch.zeros(0, dtype=torch.int64)),
        (broken, torch.tensor([1, -1])),
        (torch.randn(2, 4, requires_grad=True), torch.tensor([-1, -7])),
    ]
