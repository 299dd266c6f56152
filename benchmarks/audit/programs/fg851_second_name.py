"""FG851: the list has a second name, by which the result reads what was appended."""

import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.history = []
        self.context = self.history

    def recall(self, h, depth):
        for past in self.context[-depth - 1 : -1]:
            h = h + 0.5 * past
        return h

    def forward(self, x, depth=0):
        h = torch.tanh(self.net(x))
        self.history.append(h.detach())
        if depth > 0:
            h = self.recall(h, depth)
        return h


def build():
    torch.manual_seed(0)
    return Recurrent().eval(), (torch.randn(2, 8),)


def witnesses():
    """The last step, and more steps than there are."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [(x, 1), (x, 5)]
