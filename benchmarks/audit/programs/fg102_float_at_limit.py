"""FG102: a Python float is compared in double precision, a float32 or float16 tensor is not."""

import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, step=0.01, limit=0.1):
        super().__init__()
        self.step = step
        self.limit = limit

    def forward(self, x, limit=None):
        limit = self.limit if limit is None else limit
        peak = float(x.abs().max())
        if peak > limit:
            raise ValueError("the peak is above the limit")
        return (x / self.step).round() * self.step


def build():
    torch.manual_seed(0)
    return Quantizer(), (torch.rand(3, 4) * 0.05,)


def witnesses():
    """At the limit in three precisions, and a limit that float16 cannot hold."""
    ones = torch.ones(2, 3)
    return [
        (ones * 0.1,),
        (ones.half() * 0.1,),
        (ones.double() * 0.1,),
        (torch.tensor([1.0, float("inf")], dtype=torch.float16), 70000.0),
        (torch.tensor([16777216.0]), 16777215.5),
        (torch.tensor([2**53 + 1]), 9007199254740992.0),
    ]
