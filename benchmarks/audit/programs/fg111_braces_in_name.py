"""FG111: a name that comes from the caller may hold braces, and need not be a string."""

import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.linear.requires_grad_(False)

    def forward(self, x, name="linear"):
        h = self.linear(x)
        print(f"{name}: norm {h.norm():.2f} of {x.norm():.2f}")
        print(name, h.mean())
        return torch.relu(h)


def build():
    torch.manual_seed(0)
    return Probe().eval(), (torch.randn(2, 4), "linear")


def witnesses():
    """Names with braces, percent signs and line ends, none at all, and a number."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    names = ("blocks.{i}", "{h}", "{", "100%s", "two\nlines", "", None, 7, 0.5, ("a", 1))
    return [(x, name) for name in names]
