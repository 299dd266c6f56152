"""FG113: the other branch of the warning does the work, and must run compiled as well."""

import logging

import torch
from torch import nn

logger = logging.getLogger("audit.step")


class Stepper(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.update = nn.Linear(width, width)
        self.skipped = 0

    def forward(self, x):
        for step in range(2):
            delta = self.update(x)
            if not torch.isfinite(delta).all():
                logger.warning("step %d is skipped", step)
            else:
                x = x + delta
        if delta.norm() > 1e3:
            logger.warning("large update")
            x = x / delta.norm()
        return x


def build():
    torch.manual_seed(0)
    return Stepper().eval(), (torch.randn(2, 4),)


def witnesses():
    """Finite updates, one that is not, and one that is large."""
    torch.manual_seed(1)
    return [
        (torch.randn(2, 4),),
        (torch.full((2, 4), float("inf")),),
        (torch.full((2, 4), 1e5),),
    ]
