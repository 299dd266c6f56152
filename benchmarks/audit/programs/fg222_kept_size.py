"""FG222: the list of sizes is compared with a list, returned, kept and changed by its holder."""

import torch
from torch import nn


class SizeCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        size = torch.tensor(x.shape[2:]).tolist()
        h, w = torch.tensor(x.size()[2:]).tolist()
        if size != [4, 4]:
            x = x * 0.5
        self.seen.append(size)
        size += [h * w]
        return x.flatten(2), size


def build():
    torch.manual_seed(0)
    return SizeCache(), (torch.randn(1, 2, 3, 5),)


def witnesses():
    """The size that it knows, an image of no rows, and one dimension too few and too many."""
    return [
        (torch.ones(1, 2, 4, 4),),
        (torch.ones(1, 2, 0, 4),),
        (torch.ones(1, 2, 4),),
        (torch.ones(1, 2, 4, 4, 4),),
    ]
