"""FG812: an error in the block, or in entering the last context, is suppressed by the first."""

import contextlib
from contextlib import ExitStack

import torch
from torch import nn


@contextlib.contextmanager
def scope(name, width):
    if width == 0:
        raise ValueError(f"{name}: no column")
    print("enter", name)
    try:
        yield
    finally:
        print("leave", name)


class Tolerant(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x, strict=False):
        y = x
        with ExitStack() as stack:
            if not strict:
                stack.enter_context(contextlib.suppress(ValueError, RuntimeError))
            stack.enter_context(scope("outer", 1))
            stack.enter_context(scope("inner", x.shape[-1]))
            y = self.net(x)
        return y * 2


def build():
    torch.manual_seed(0)
    return Tolerant().eval(), (torch.randn(2, 4),)


def witnesses():
    """No column, and one too few, suppressed and not."""
    x = torch.ones(2, 4)
    return [(x[:, :0],), (x[:, :3],), (x[:, :0], True), (x[:, :3], True), (x, True)]
