"""FG814: the argument of sleep doubles the delay, and the number of tries is used."""

import time

import torch
from torch import nn


class Retry(nn.Module):
    def __init__(self, width=4, delay=1e-4):
        super().__init__()
        self.net = nn.Linear(width, width)
        self.delay = delay
        self.tries = 0

    def next_delay(self):
        self.tries += 1
        self.delay *= 2
        return self.delay

    def forward(self, x, tries=1):
        for _ in range(tries):
            time.sleep(self.next_delay())
            x = torch.tanh(self.net(x))
        return x / (1 + self.tries)


def build():
    torch.manual_seed(0)
    return Retry().eval(), (torch.randn(2, 4),)


def witnesses():
    """None, one and three tries."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x, 0), (x, 1), (x, 3)]
