"""FG812: the second condition holds or not because of the context that was entered first."""

from contextlib import ExitStack

import torch
from torch import nn


class Mixed(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.asked = 0

    def wants_half(self):
        self.asked += 1
        return torch.is_grad_enabled()

    def forward(self, x, frozen=False):
        with ExitStack() as stack:
            if frozen:
                stack.enter_context(torch.no_grad())
            if self.wants_half():
                stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
            y = self.net(x)
        return y, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")


def build():
    torch.manual_seed(0)
    return Mixed(), (torch.randn(2, 4),)


def witnesses():
    """Frozen, and so in full precision; and not."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x, True), (x, False), (x.clone().requires_grad_(), True)]
