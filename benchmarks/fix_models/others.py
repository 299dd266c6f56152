"""Causes that no rewrite mends: sizes from data, recurrent layers, clocks, sparse tensors."""

from __future__ import annotations

import time

import torch
from torch import nn

from benchmarks.models.entry import Entry


class OneHotByMax(nn.Module):
    def forward(self, index):
        return torch.zeros(index.shape[0], int(index.max()) + 1).scatter_(1, index[:, None], 1.0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 8)

    def forward(self, x):
        return self.rnn(x)[0]


class Timed(nn.Module):
    def forward(self, x):
        start = time.time()
        y = x.softmax(-1)
        return y, time.time() - start


class Unique(nn.Module):
    def forward(self, x):
        return torch.unique(x)


class Sparse(nn.Module):
    def forward(self, index, x):
        size = (x.shape[0], x.shape[0])
        return torch.sparse_coo_tensor(index, torch.ones(index.shape[1]), size) @ x


class Selected(nn.Module):
    def forward(self, x):
        return x[x[:, 0] > 0]


ENTRIES = tuple(
    Entry("others", kind.__name__, lambda kind=kind, inputs=inputs: (kind(), inputs(), {}))
    for kind, inputs in (
        (OneHotByMax, lambda: (torch.randint(0, 4, (6,)),)),
        (Tagger, lambda: (torch.randn(3, 2, 8),)),
        (Timed, lambda: (torch.randn(4, 8),)),
        (Unique, lambda: (torch.randint(0, 4, (6,)),)),
        (Sparse, lambda: (torch.tensor([[0, 1], [1, 0]]), torch.randn(4, 8))),
        (Selected, lambda: (torch.randn(4, 8),)),
    )
)
