"""FG853: the history keeps the number of each call, and must not see the later ones."""

import torch
from torch import nn

CALLS = 0
HISTORY = []


class Gated(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x, record=False):
        global CALLS
        CALLS += 1
        if record:
            HISTORY.append((CALLS, tuple(x.shape)))
        return torch.tanh(self.net(x)) + 0.001 * CALLS


def build():
    torch.manual_seed(0)
    return Gated().eval(), (torch.randn(2, 8),)


def witnesses():
    """Recorded, recorded with another number of rows, and not recorded."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x, True), (x[:1], True), (x, False)]


def observe():
    return list(HISTORY)
