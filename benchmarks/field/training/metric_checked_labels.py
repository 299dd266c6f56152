"""A running metric checks its labels, and takes scores outside of [0, 1] for logits."""

import torch
from torch import nn


class BinaryCounts(nn.Module):
    def __init__(self, threshold: float = 0.5, validate: bool = True) -> None:
        super().__init__()
        self.threshold, self.validate = threshold, validate
        self.register_buffer("counts", torch.zeros(4, dtype=torch.long))

    def check(self, scores, labels):
        if scores.shape != labels.shape:
            raise ValueError(f"{tuple(scores.shape)} scores, {tuple(labels.shape)} labels")
        found = torch.unique(labels)
        if torch.any((found != 0) & (found != 1)):
            raise RuntimeError(f"labels must be 0 or 1, got {found}")

    def forward(self, scores, labels):
        if self.validate:
            self.check(scores, labels)
        if not torch.all((scores >= 0) & (scores <= 1)):
            scores = scores.sigmoid()
        guess, truth = scores > self.threshold, labels == 1
        cells = (guess & truth, guess & ~truth, ~guess & ~truth, ~guess & truth)
        self.counts += torch.stack([cell.sum() for cell in cells])
        return (self.counts[0] + self.counts[2]) / self.counts.sum()


def build():
    torch.manual_seed(0)
    return BinaryCounts(), (torch.randn(8), torch.randint(0, 2, (8,)))
