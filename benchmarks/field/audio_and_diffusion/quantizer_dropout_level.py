"""Residual quantizers train with a random number of levels."""

import random

import torch
from torch import nn


class ResidualQuantizer(nn.Module):
    def __init__(self, levels: int = 4, codes: int = 8, width: int = 6) -> None:
        super().__init__()
        self.books = nn.Parameter(torch.randn(levels, codes, width))
        self.cutoff = 1

    def forward(self, x):
        residual, total, picked = x, torch.zeros_like(x), []
        keep = random.randrange(self.cutoff, len(self.books)) if self.training else None
        for level, book in enumerate(self.books):
            if keep is not None and level > keep:
                picked.append(torch.full(x.shape[:-1], -1))
                continue
            index = torch.cdist(residual, book).argmin(-1)
            code = book[index]
            residual, total = residual - code.detach(), total + code
            picked.append(index)
        return total, torch.stack(picked, dim=-1)


def build():
    torch.manual_seed(0)
    return ResidualQuantizer().train(), (torch.randn(5, 6),)
