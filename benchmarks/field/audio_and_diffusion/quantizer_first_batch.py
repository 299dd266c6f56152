"""A codebook is filled from its first batch; whether that happened is a buffer."""

import torch
from torch import nn


class LazyCodebook(nn.Module):
    def __init__(self, codes: int = 5, width: int = 4) -> None:
        super().__init__()
        self.register_buffer("ready", torch.tensor([False]))
        self.register_buffer("book", torch.zeros(codes, width))

    def fill(self, data):
        if self.ready:
            return
        self.book.copy_(data[: self.book.shape[0]])
        self.ready.fill_(True)

    def forward(self, x):
        self.fill(x.detach())
        index = torch.cdist(x, self.book).argmin(-1)
        return x + (self.book[index] - x).detach()


def build():
    torch.manual_seed(0)
    return LazyCodebook(), (torch.randn(7, 4),)
