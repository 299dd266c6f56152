"""FG812: the first context changes the flag under which a second one is entered beside it."""

import contextlib
from contextlib import ExitStack

import torch
from torch import nn


class Trainer(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.fresh = False

    @contextlib.contextmanager
    def preparing(self):
        self.fresh = False
        print("prepare")
        yield
        print("prepared")

    def forward(self, x, fresh=False):
        self.fresh = fresh
        with ExitStack() as stack:
            if self.fresh:
                stack.enter_context(self.preparing())
                stack.enter_context(torch.no_grad())
            if not self.fresh:
                stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
            y = self.net(x)
        return y


def build():
    torch.manual_seed(0)
    return Trainer(), (torch.randn(2, 4),)


def witnesses():
    """With the flag set, all three are entered."""
    torch.manual_seed(1)
    return [(torch.randn(2, 4), True), (torch.randn(2, 4), False)]
