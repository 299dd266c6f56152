"""FG812: what the context gives replaces a number, but only where it is entered."""

from contextlib import ExitStack, contextmanager

import torch
from torch import nn


@contextmanager
def boosted(factor):
    print("boost", factor)
    yield factor
    print("end of boost")


class Amplifier(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.scale = 0.5

    def forward(self, x, boost=True, frozen=False):
        scale = self.scale
        with ExitStack() as stack:
            if frozen:
                stack.enter_context(torch.no_grad())
            if boost:
                scale = stack.enter_context(boosted(2.0))
            y = self.net(x) * scale
        return y


def build():
    torch.manual_seed(0)
    return Amplifier(), (torch.randn(2, 4), True)


def witnesses():
    """Not entered: the number stays."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x, False), (x, False, True), (x, True, True)]
