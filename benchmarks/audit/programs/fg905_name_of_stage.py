"""FG905: the helper logs ties with stacklevel=2, and the handler keeps the name of the function found."""

import logging

import torch
from torch import nn

PLACES = []


class Places(logging.Handler):
    def emit(self, record):
        PLACES.append((record.funcName, record.getMessage()))


logger = logging.Logger("matching")
logger.addHandler(Places())


class Stages(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)

    def _match(self, cost):
        rows = cost.argmin(1).tolist()
        lowest = cost.min().item()
        ties = int((cost == lowest).sum())
        if ties > 1:
            logger.warning("%d ties at %.3f", ties, lowest, stacklevel=2)
        return torch.tensor(sorted(set(rows))), lowest

    def coarse(self, x):
        rows, lowest = self._match(x)
        return x.index_fill(1, rows, lowest)

    def fine(self, x):
        rows, lowest = self._match(self.net(x))
        return x[:, rows] + lowest

    def forward(self, x):
        return self.fine(self.coarse(x))


def build():
    torch.manual_seed(0)
    return Stages().eval(), (torch.randn(3, 4),)


def witnesses():
    """Ties in both stages, other ties in both, and none."""
    return [(torch.ones(3, 4),), (torch.zeros(2, 4),), (torch.arange(12.0).view(3, 4),)]


def observe():
    return list(PLACES)
