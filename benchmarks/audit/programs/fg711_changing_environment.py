"""FG711: the model reads a variable of the environment that its own call has changed."""

import os

import torch
from torch import nn


class Configured(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, features)

    def forward(self, x, decay=None):
        scale = float(os.environ.get("AUDIT_SCALE", "1.0"))
        y = self.net(x) * scale
        if decay is not None:
            os.environ["AUDIT_SCALE"] = str(scale * decay)
        return y


def build():
    os.environ.pop("AUDIT_SCALE", None)
    torch.manual_seed(0)
    return Configured(4).eval(), (torch.randn(2, 4),)


def witnesses():
    """The scale is halved from call to call, and made a word that is no number of use."""
    return [(torch.ones(2, 4), 0.5), (torch.ones(2, 4), float("nan")), (torch.ones(2, 4), "2")]


def observe():
    return os.environ.get("AUDIT_SCALE")
