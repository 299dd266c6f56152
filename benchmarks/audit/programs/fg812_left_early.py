"""FG812: the stack is closed before the end of the block where the input is wide."""

from contextlib import ExitStack

import torch
from torch import nn


class Partial(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(1.5))

    def forward(self, x, frozen=True):
        with ExitStack() as stack:
            if frozen:
                stack.enter_context(torch.no_grad())
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
            h = x @ x.t() * self.weight
            if x.shape[-1] > 4:
                stack.close()
            h = (h.float() @ h.float()) * self.weight
        return h


def build():
    torch.manual_seed(0)
    return Partial(), (torch.randn(2, 4),)


def witnesses():
    """Wide inputs, whose last step has a gradient and full precision."""
    torch.manual_seed(1)
    return [(torch.randn(2, 6),), (torch.randn(2, 6), False), (torch.randn(2, 3), False)]
