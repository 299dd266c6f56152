"""FG408: what is above the range falls into one bin more than minlength says, if there is anything."""

import torch
from torch import nn


class LengthHistogram(nn.Module):
    def __init__(self, longest=8):
        super().__init__()
        self.longest = longest
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, lengths):
        clipped = lengths.clamp(max=self.longest)
        counts = torch.bincount(clipped, minlength=self.longest)
        return self.scale * counts.float()


def build():
    torch.manual_seed(0)
    return LengthHistogram(), (torch.tensor([3, 1, 5, 5, 0]),)


def witnesses():
    """A length at the limit, one above it, a negative one, int32, floats, and none."""
    return [
        (torch.tensor([3, 8]),),
        (torch.tensor([3, 7, 100]),),
        (torch.tensor([3, -1]),),
        (torch.tensor([3, 7], dtype=torch.int32),),
        (torch.tensor([3.0, 7.0]),),
        (torch.zeros(0, dtype=torch.int64),),
        (torch.tensor([[1, 2], [3, 4]]),),
    ]
