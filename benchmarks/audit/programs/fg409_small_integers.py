"""FG409: counts of an array of bytes overflow when they are added up, and a tensor of them has its
own sum.
"""

import numpy as np
import torch
from torch import nn


class TokenExpander(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 2)

    def forward(self, tokens, counts):
        repeats = torch.tensor(counts, dtype=torch.long)
        expanded = torch.repeat_interleave(tokens, repeats)
        return self.embed(expanded), repeats


def build():
    torch.manual_seed(0)
    return TokenExpander().eval(), (torch.tensor([4, 0, 2]), [3, 1, 2])


def witnesses():
    """Bytes in a list and in an array, floats that are cut off, numbers of NumPy, a range, one
    count.
    """
    tokens = torch.tensor([4, 0, 2])
    return [
        (tokens, list(np.array([200, 100, 7], dtype=np.uint8))),
        (tokens, np.array([200, 100, 7], dtype=np.uint8)),
        (tokens, [1.9, 2.9, 0.5]),
        (tokens, np.array([1, 2, 3])),
        (tokens, range(3)),
        (tokens, [torch.tensor(1), torch.tensor(2), torch.tensor(0)]),
        (tokens, [4]),
        (tokens, [1, -1, 2]),
        (tokens[:0], []),
        (tokens.view(3, 1), [1, 0, 2]),
    ]
