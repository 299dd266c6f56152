"""FG813: code in the block reads the flag that the block sets, and takes another path."""

import torch
from torch import nn


def stable_sum(x):
    if torch.backends.cudnn.deterministic:
        return x.double().sum(-1).float()
    return x.cumsum(-1)[..., -1] * 2


class Reducer(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x, exact=False):
        with torch.backends.cudnn.flags(enabled=False, deterministic=exact):
            y = stable_sum(self.net(x))
            on = torch.backends.cudnn.enabled
        return y, on, torch.backends.cudnn.deterministic


def build():
    torch.manual_seed(0)
    return Reducer().eval(), (torch.randn(2, 4),)


def witnesses():
    """Exact, and not."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x, True), (x, False)]
