"""FG114: the bar goes over an iterator that is left early, goes on later, and has an else."""

import torch
from torch import nn
from tqdm import tqdm


class Streamer(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, chunks, limit=100.0):
        stream = iter(chunks)
        for chunk in tqdm(stream, total=len(chunks), disable=None):
            x = x + self.linear(chunk)
            if x.abs().max() > limit:
                break
        else:
            x = x * 2
        rest = [chunk.sum() for chunk in stream]
        return x, chunk, rest


def build():
    torch.manual_seed(0)
    return Streamer().eval(), (torch.randn(2, 4), [torch.randn(2, 4) for _ in range(3)])


def witnesses():
    """Left after the first chunk, after the second of four, not at all, and no chunk."""
    torch.manual_seed(1)
    x, chunks = torch.randn(2, 4), [torch.full((2, 4), 10.0**n) for n in range(4)]
    return [(x, chunks, 0.0), (x, chunks, 5.0), (x, chunks, 1e9), (x, [], 1.0)]
