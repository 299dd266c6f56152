"""FG101: the second half of the test must not be evaluated for an empty batch."""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width=6, classes=5):
        super().__init__()
        self.classes = classes
        self.linear = nn.Linear(width, classes)

    def forward(self, x, labels):
        if labels.numel() > 0 and labels.max() >= self.classes:
            raise IndexError(f"label {labels.max().item()} of {self.classes} classes: {labels}")
        logits = self.linear(x)
        return logits.gather(1, labels.long().unsqueeze(1)).sum()


def build():
    torch.manual_seed(0)
    return Head().eval(), (torch.randn(4, 6), torch.tensor([0, 4, 2, 1]))


def witnesses():
    """No label, a label that is too large, other dtypes, and a negative one."""
    torch.manual_seed(1)
    x = torch.randn(3, 6)
    return [
        (x[:0], torch.zeros(0, dtype=torch.int64)),
        (x, torch.tensor([1, 5, 0])),
        (x, torch.tensor([1, 200, 0], dtype=torch.uint8)),
        (x, torch.tensor([1, -1, 0], dtype=torch.int32)),
    ]
