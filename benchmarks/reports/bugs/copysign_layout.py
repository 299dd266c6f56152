"""Signed square roots of bilinear features, which are kept transposed for the next product."""

import torch
from torch import nn
from torch.nn import functional as F


class SignedRoot(nn.Module):
    """Roots of one map of features with the signs of another."""

    def forward(self, x, signs):
        return torch.copysign(x.abs().sqrt(), signs)


class BilinearPool(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.left, self.right = nn.Conv1d(channels, width, 1), nn.Conv1d(channels, width, 1)

    def forward(self, x):
        return self.left(x) @ self.right(x).transpose(1, 2)


class FineGrained(nn.Module):
    def __init__(self, channels=3, width=4, classes=5):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, padding=1)
        self.pool, self.signs = BilinearPool(channels, width), BilinearPool(channels, width)
        self.root = SignedRoot()
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = F.relu(self.conv(x))
        pooled = self.pool(x) / x.shape[-1]
        features = self.root(pooled.mT, self.signs(x))
        scores = self.head(F.normalize(features.mean(1)))
        return scores.log_softmax(-1), features


def build():
    torch.manual_seed(0)
    return FineGrained().eval().requires_grad_(False), (torch.randn(2, 3, 10),)
