"""FG801: the options are a plain dict in ordinary calls, and a defaultdict or OrderedDict too."""

import collections
import copy

import torch
from torch import nn


class Options(dict):
    def __copy__(self):
        return Options(self, copied=True)


class Activation(nn.Module):
    def forward(self, x, options):
        used = copy.copy(options)
        used["scale"] = used["scale"] * 2
        y = torch.tanh(x) * used["scale"] + used.get("shift", 0.0)
        return y, used


def build():
    torch.manual_seed(0)
    return Activation(), (torch.randn(2, 4), {"scale": 0.5, "shift": 1.0})


def witnesses():
    """Other kinds of dicts, one of which says how it is copied, and lists in them."""
    x = torch.ones(2, 2)
    return [
        (x, collections.defaultdict(float, shift=2.0)),
        (x, collections.OrderedDict(scale=1.0)),
        (x, Options(scale=3.0)),
        (x, collections.Counter(scale=3)),
        (x, {"scale": [1.0], "shift": 2.0}),
        (x, {}),
    ]
