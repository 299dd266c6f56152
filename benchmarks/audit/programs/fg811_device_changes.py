"""FG811: the device is changed inside the block, which goes on with the one that it began with."""

import torch
from torch import nn


class Table(nn.Module):
    def __init__(self, limit=8):
        super().__init__()
        self.limit = limit
        self.device = "cpu"
        self.places = []

    def forward(self, x, device="cpu"):
        self.device = device
        with torch.device(self.device):
            table = torch.zeros(x.shape[-1])
            if x.shape[-1] > self.limit:
                self.device = "cpu"
            offsets = torch.arange(x.shape[-1])
        self.places.append(f"{table.device} {offsets.device} {self.device}")
        return x * 2


def build():
    torch.manual_seed(0)
    return Table(), (torch.randn(2, 4), "cpu")


def witnesses():
    """Few columns, and more than the limit."""
    return [(torch.ones(2, 4), "meta"), (torch.ones(2, 12), "meta")]
