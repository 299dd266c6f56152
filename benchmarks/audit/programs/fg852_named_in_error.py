"""FG852: the number stands in the text of an error, and in a report, as a plain int."""

import torch
from torch import nn


class Ramp(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.width = width
        self.step = 0

    def forward(self, x, report=False):
        self.step += 1
        if x.shape[-1] != self.width:
            raise ValueError("unusual width, at (step, width) %s" % [self.step, x.shape[-1]])
        h = self.net(x) * (self.step / 10)
        if report:
            return {"h": h, "step": self.step, "name": "ramp." + str(self.step)}
        return h


def build():
    torch.manual_seed(0)
    return Ramp().eval(), (torch.randn(2, 8),)


def witnesses():
    """A width that is not right, a report, and no rows."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x[:, :5],), (x, True), (x[:0], False)]
