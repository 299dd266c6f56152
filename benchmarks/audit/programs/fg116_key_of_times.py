"""FG116: the key under which times are kept may be one under which the depth is kept."""

import time

import torch
from torch import nn


class Profiled(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self._stats = {"time": [], "depth": []}

    def forward(self, x, key="time"):
        start = time.time()
        h = self.linear(x)
        self._stats[key].append(time.time() - start)
        self._stats["depth"].append(h.dim())
        return h * len(self._stats["depth"])


def build():
    torch.manual_seed(0)
    return Profiled().eval(), (torch.randn(2, 4),)


def witnesses():
    """The key of the depth, a key that is missing, and the ordinary one."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x, "depth"), (x, "seconds"), (x, "time")]
