"""Fusion of loops into kernels."""

from fullgraph.compiler.lowering.fusion.fuse import fuse
from fullgraph.compiler.lowering.fusion.inline import estimate, inline_producers
from fullgraph.compiler.lowering.fusion.kernels import Kernel, Member, Plan

__all__ = ["Kernel", "Member", "Plan", "estimate", "fuse", "inline_producers"]
