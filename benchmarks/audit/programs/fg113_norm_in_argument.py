"""FG113: the norm that is logged is named in the call of the logger, and used after it."""

import logging

import torch
from torch import nn

logger = logging.getLogger("audit.norm")
logger.setLevel(logging.INFO)


class Rescale(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, norm=1.0):
        h = self.linear(x)
        if x.dim() > 1:
            logger.info("norm %.3f", norm := h.norm().item())
        logger.info("ready")
        return h / norm


def build():
    torch.manual_seed(0)
    return Rescale().eval(), (torch.randn(2, 4),)


def witnesses():
    """A batch, and a row that keeps the norm of the caller."""
    torch.manual_seed(1)
    return [(torch.randn(3, 4),), (torch.randn(4), 2.0)]
