"""FG409: a list of one count repeats every row, so the counts do not add up to the rows that
result.
"""

import torch
from torch import nn


class LengthRegulator(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 4)

    def forward(self, phonemes, durations):
        frames = torch.repeat_interleave(self.project(phonemes), torch.tensor(durations), dim=0)
        return frames.cumsum(0)


def build():
    torch.manual_seed(0)
    return LengthRegulator().eval(), (torch.randn(3, 4), [2, 3, 1])


def witnesses():
    """One count for all rows, one number, counts of zero, of floats, of bools, negative ones, a
    tuple.
    """
    phonemes = torch.linspace(-1, 1, 12).view(3, 4)
    return [
        (phonemes, [2]),
        (phonemes, 2),
        (phonemes, [0, 0, 0]),
        (phonemes, [1.0, 2.0, 1.0]),
        (phonemes, [True, False, True]),
        (phonemes, [2, -1, 3]),
        (phonemes, (1, 0, 4)),
        (phonemes, [1, 2]),
        (phonemes, [[1, 2, 3]]),
        (phonemes[:0], []),
        (phonemes[:1], [0]),
    ]
