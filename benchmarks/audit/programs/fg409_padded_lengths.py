"""FG409: the list of lengths grows by the padding after the tensor was made of it, if there is any."""

import torch
from torch import nn


class SegmentIds(nn.Module):
    def __init__(self, multiple=4):
        super().__init__()
        self.multiple = multiple
        self.segments = nn.Embedding(16, 4)

    def forward(self, lengths):
        n = len(lengths)
        repeats = torch.tensor(lengths)
        padding = -sum(lengths) % self.multiple
        if padding > 0:
            lengths.append(padding)
        ids = torch.repeat_interleave(torch.arange(n), repeats)
        return self.segments(ids), lengths


def build():
    torch.manual_seed(0)
    return SegmentIds().eval(), ([3, 4, 1],)


def witnesses():
    """A list that is padded at the first call, one segment, several empty ones, floats, and no
    segment.
    """
    return [
        ([3, 4, 3],),
        ([5],),
        ([0, 0, 0],),
        ([0, 2],),
        ([1.0, 2.0],),
        ([-1, 4],),
        ([],),
    ]
