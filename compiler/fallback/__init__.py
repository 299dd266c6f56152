"""`compile`: torch.compile that checks each graph and runs a failing one on a lower rung."""

from fullgraph.compiler.fallback.checked_backend import (
    CompileReport,
    ReportedGraph,
    compile,
    report,
)

__all__ = ["CompileReport", "ReportedGraph", "compile", "report"]
