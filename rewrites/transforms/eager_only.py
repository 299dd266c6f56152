"""Statements that compiled code leaves out: `if not torch.compiler.is_compiling():`."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.source import Document, build_expression


def compiling_condition(document: Document) -> str:
    """Return "torch.compiler.is_compiling()", with the file's name for torch."""
    return f"{document.imported_name('torch') or 'torch'}.compiler.is_compiling()"


def eager_condition(document: Document) -> str:
    """Return "not torch.compiler.is_compiling()", with the file's name for torch."""
    return f"not {compiling_condition(document)}"


def run_in_eager_only(document: Document, *statements: cst.BaseStatement) -> cst.If:
    """Return consecutive statements under `if not torch.compiler.is_compiling():`."""
    first = statements[0]
    return cst.If(
        build_expression(eager_condition(document)),
        cst.IndentedBlock([first.with_changes(leading_lines=()), *statements[1:]]),
        leading_lines=getattr(first, "leading_lines", ()),
    )
