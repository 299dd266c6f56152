"""FG112: a filter lets each place in the source log once, and two places have the same form."""

import logging

import torch
from torch import nn

KEPT = []
logger = logging.getLogger("audit.once")
logger.setLevel(logging.DEBUG)


class OncePerPlace(logging.Filter):
    def __init__(self):
        super().__init__()
        self.places = set()

    def filter(self, record):
        place = record.pathname, record.lineno
        if place in self.places:
            return False
        self.places.add(place)
        KEPT.append(record.getMessage())
        return True


logger.addFilter(OncePerPlace())


class Clip(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        logger.debug("input: %s", tuple(x.shape))
        h = self.linear(x).clamp(-1, 1)
        logger.debug("hidden: %s", tuple(h.shape))
        if (h.abs() == 1).any():
            logger.warning("clipped: %d", int((h.abs() == 1).sum()))
        return h


def build():
    torch.manual_seed(0)
    return Clip().eval(), (torch.randn(2, 4) * 0.1,)


def witnesses():
    """All three places are reached, twice."""
    return [(torch.full((2, 4), 50.0),), (torch.zeros(0, 4),)]


def observe():
    return KEPT
