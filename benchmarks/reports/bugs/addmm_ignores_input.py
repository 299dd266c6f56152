"""A classifier writes over a template of its logits, which holds NaN until it is used."""

import torch
from torch import nn
from torch.nn import functional as F


class Projection(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, classes) / width**0.5)
        self.register_buffer("template", torch.full((classes,), float("nan")))
        self.keep = 0.0

    def forward(self, x):
        return torch.addmm(self.template, x, self.weight, beta=self.keep)


class Classifier(nn.Module):
    def __init__(self, width=12, classes=4):
        super().__init__()
        self.conv = nn.Conv1d(2, width, 3, padding=1)
        self.hidden, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.project, self.scale = Projection(width, classes), nn.Parameter(torch.ones(classes))

    def forward(self, signal):
        x = F.relu(self.conv(signal)).mean(-1)
        x = self.norm(x + F.gelu(self.hidden(x)))
        logits = self.project(x)
        return (logits * self.scale).softmax(-1)


def build():
    torch.manual_seed(0)
    return Classifier().eval().requires_grad_(False), (torch.randn(1, 2, 16),)
