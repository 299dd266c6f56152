# ruff: noqa
"""Printing, logging and warnings: FG111, FG112 and FG113."""

import logging
import warnings

import torch
from torch import nn

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program

logger = logging.getLogger("golden_programs")
logger.addHandler(logging.NullHandler())
logger.propagate = False


def printed(x, step):
    loss = x.square().mean()
    print("loss", loss)
    print(f"{step}: {loss.item():.3f}")
    return loss * 2


class ReportingEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4)
        self.scale = 2.0

    def forward(self, x):
        h = self.encoder(x)
        if h.abs().max() > 1e4:
            logger.warning("large activations: %s", h.abs().max().item())
        return h.mul_(self.scale)


def warned(x):
    h = x * 2
    logger.warning("no mask was given")
    if h.isnan().any():
        warnings.warn("NaN")
    return h + 1


PROGRAMS = (
    Program("FG111", printed, lambda: (*inputs.matrix(), 3)),
    Program("FG112", ReportingEncoder, inputs.matrix),
    Program("FG113", warned, inputs.matrix),
)
