"""Blank lines between the top-level statements of emitted source."""

from __future__ import annotations

import ast

from fullgraph.compiler.sources import first_line

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def space_definitions(text: str) -> str:
    """Return `text` with one blank line around top-level definitions and after imports."""
    lines = text.split("\n")
    parts: list[str] = []
    previous: ast.stmt | None = None
    for statement in ast.parse(text).body:
        if previous is not None and _is_spaced(statement, previous):
            parts.append("")
        parts += lines[first_line(statement) - 1 : statement.end_lineno]
        previous = statement
    return "\n".join(parts) + "\n"


def _is_spaced(statement: ast.stmt, previous: ast.stmt) -> bool:
    """Return whether a blank line belongs between two statements."""
    imports = ast.Import | ast.ImportFrom
    return (
        isinstance(statement, Definition)
        or isinstance(previous, Definition)
        or (isinstance(previous, imports) and not isinstance(statement, imports))
    )
