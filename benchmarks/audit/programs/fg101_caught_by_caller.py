"""FG101: the check stands in a helper, and the caller of the helper handles what it raises."""

import torch
from torch import nn


def check_finite(h, name):
    if not torch.isfinite(h).all():
        raise ValueError(f"{name}: activations are not finite")


class Decoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.head = nn.Linear(width, 3)
        self.recovered = 0

    def forward(self, x):
        h = self.proj(x)
        try:
            check_finite(h, "proj")
        except ValueError:
            self.recovered += 1
            h = torch.nan_to_num(h, nan=0.0, posinf=1.0, neginf=-1.0)
        out = self.head(h)
        check_finite(out, "head")
        return out


def build():
    torch.manual_seed(0)
    return Decoder().eval(), (torch.randn(2, 8),)


def witnesses():
    """The first check fails and is handled; in the last the parameters get NaN gradients."""
    torch.manual_seed(1)
    bad = torch.randn(2, 8)
    bad[0, 3] = float("inf")
    return [(torch.randn(2, 8),), (bad,), (torch.full((1, 8), float("nan")),)]
