"""A codebook replaces codes that were hardly used, if there are any."""

import torch
from torch import nn


class LiveCodebook(nn.Module):
    def __init__(self, codes: int = 8, width: int = 4) -> None:
        super().__init__()
        self.register_buffer("book", torch.randn(codes, width))
        self.register_buffer("usage", torch.arange(codes).float())
        self.minimum = 2.0

    def expire(self, samples):
        dead = self.usage < self.minimum
        if dead.sum() == 0:
            return
        fresh = samples[torch.randint(0, samples.shape[0], (self.book.shape[0],))]
        self.book.copy_(torch.where(dead[:, None], fresh, self.book))
        self.usage.masked_fill_(dead, self.minimum)

    def forward(self, x):
        index = torch.cdist(x, self.book).argmin(-1)
        self.usage.mul_(0.9).index_add_(0, index, torch.full_like(index, 0.1, dtype=torch.float))
        self.expire(x.detach())
        return self.book[index]


def build():
    torch.manual_seed(0)
    return LiveCodebook(), (torch.randn(6, 4),)
