"""After `if mask is not None: x = x[mask]` the rest of the function goes into the `if` too."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from fullgraph.rewrites.document import Replacement, replaced
from fullgraph.rewrites.site import Site


def continuation(site: Site, node: cst.BaseExpression) -> tuple[cst.SimpleStatementLine, ...]:
    """The simple statements behind an `if` without `else` that ends with the statement of `node`,
    up to the first `return`; () if there is no such place."""
    document = site.document
    last = document.statement(node)
    block = document.parent(last)
    outer = document.parents.get(block)
    if not isinstance(block, cst.IndentedBlock) or block.body[-1] is not last:
        return ()
    around = document.parents.get(outer) if outer is not None else None
    if not isinstance(outer, cst.If) or not isinstance(around, cst.IndentedBlock):
        return ()
    found: list[cst.SimpleStatementLine] = []
    for one in around.body[list(around.body).index(outer) + 1 :]:
        if outer.orelse is not None or not isinstance(one, cst.SimpleStatementLine):
            return ()
        found.append(one)
        if isinstance(one.body[-1], cst.Return):
            return tuple(found)
    return ()


def copied(
    site: Site,
    line: cst.BaseStatement,
    rest: tuple[cst.SimpleStatementLine, ...],
    edits: Mapping[cst.CSTNode, cst.CSTNode],
    replacements: Mapping[cst.CSTNode, Replacement],
) -> dict[cst.CSTNode, Replacement]:
    """The edits, with those of `rest` in a copy of it behind `line`, at the end of the `if`."""
    document = site.document

    def within(node: cst.CSTNode) -> bool:
        return document.statement(node) in rest

    own = {node: new for node, new in edits.items() if line in document.around(node)}
    known = replacements.get(line)
    head = [*known.nodes] if isinstance(known, cst.FlattenSentinel) else [replaced(line, own)]
    copies = [
        replaced(one, {node: new for node, new in edits.items() if within(node)}).with_changes(
            leading_lines=()
        )
        for one in rest
    ]
    others = {
        node: new for node, new in replacements.items() if node not in own and not within(node)
    }
    return {**others, line: cst.FlattenSentinel([*head, *copies])}
