"""Statements that compiled code leaves out: `if not torch.compiler.is_compiling():`."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.source import Document, build_expression


def run_in_eager_only(document: Document, *statements: cst.BaseStatement) -> cst.If:
    """Return neighbouring statements under a guard that is false while compiling."""
    torch = document.imported_name("torch") or "torch"
    first = statements[0]
    lines = getattr(first, "leading_lines", ())
    return cst.If(
        build_expression(f"not {torch}.compiler.is_compiling()"),
        cst.IndentedBlock([first.with_changes(leading_lines=()), *statements[1:]]),
        leading_lines=lines,
    )
