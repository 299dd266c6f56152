"""Import that an edit leaves without a use."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.source import Document, Replacement

_Import = cst.Import | cst.ImportFrom


def remove_unused_import(document: Document, call: cst.Call) -> dict[cst.CSTNode, Replacement]:
    """Return the edit that removes the import of a function that only `call` uses.

    {} if the module may be needed elsewhere, or no line of its own imports it.
    """
    root: cst.CSTNode = call.func
    while isinstance(root, cst.Attribute):
        root = root.value
    body = document.module.body
    if not isinstance(root, cst.Name) or document.file.endswith("__init__.py"):
        return {}
    lines = [one for one in body if _bound_by(one) == root.value]
    own = {id(root), *(id(name) for one in lines for name in _names_in(one))}
    words = (one for one in document.ranges if isinstance(one, cst.Name | cst.SimpleString))
    used = any(one.value.strip("\"'") == root.value and id(one) not in own for one in words)
    if len(lines) != 1 or used:
        return {}
    (line,) = lines
    if line is not body[0]:
        return {line: cst.RemoveFromParent()}
    after = body[1] if len(body) > 1 else None
    if not isinstance(after, cst.SimpleStatementLine) or not isinstance(after.body[0], _Import):
        return {}
    return {line: cst.RemoveFromParent(), after: after.with_changes(leading_lines=())}


def _bound_by(line: cst.CSTNode) -> str:
    """Return the only name that a line imports; "" for other lines."""
    match line:
        case cst.SimpleStatementLine(
            [cst.Import([alias]) | cst.ImportFrom(names=[cst.ImportAlias() as alias])]
        ):
            return alias.evaluated_alias or alias.evaluated_name
    return ""


def _names_in(node: cst.CSTNode) -> list[cst.Name]:
    found = [one for child in node.children for one in _names_in(child)]
    return [*found, node] if isinstance(node, cst.Name) else found
