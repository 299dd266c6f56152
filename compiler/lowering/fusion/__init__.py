"""Fusion of loops into kernels, and the loop nest of each in memory."""

from fullgraph.compiler.lowering.fusion.fuse import fuse
from fullgraph.compiler.lowering.fusion.inline import estimate
from fullgraph.compiler.lowering.fusion.kernels import Kernel, Plan
from fullgraph.compiler.lowering.fusion.nest import (
    Dims,
    Nest,
    Statement,
    find_levels,
    make_nest,
    runs_along_outer,
)

__all__ = [
    "Dims",
    "Kernel",
    "Nest",
    "Plan",
    "Statement",
    "estimate",
    "find_levels",
    "fuse",
    "make_nest",
    "runs_along_outer",
]
