"""A head that expects another width: eager raises the error that the compiler reports."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(2, width, 3), nn.BatchNorm1d(width)
        self.head = nn.Linear(2 * width, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(x.mean(-1))


def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 2, 12),)
