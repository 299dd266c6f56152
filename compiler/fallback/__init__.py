"""`compile`: torch.compile that checks each graph and runs a failing one on a lower rung."""

from fullgraph.compiler.fallback.checked_backend import ReportedGraph, compile, report

__all__ = ["ReportedGraph", "compile", "report"]
