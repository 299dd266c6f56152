"""Sentences are copied into a batch whose padding nobody writes."""

import torch
from torch import nn


class Pad(nn.Module):
    def forward(self, rows, lengths):
        out = torch.empty(len(lengths), max(lengths), rows.shape[-1])
        start = 0
        for number, length in enumerate(lengths):
            out[number, :length] = rows[start : start + length]
            start += length
        return out


class Batch(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.mix, self.pad = nn.Linear(width, width), Pad()

    def forward(self, rows, lengths):
        return self.pad(torch.relu(self.mix(rows)), lengths)


def build():
    torch.manual_seed(0)
    return Batch().eval().requires_grad_(False), (torch.randn(40, 32), (3, 30, 7))
