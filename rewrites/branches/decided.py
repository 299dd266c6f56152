"""A whole decision written anew: a conditional expression, an early return or an `if`."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.branches import early
from fullgraph.rewrites.branches.conditional import Conditional
from fullgraph.rewrites.branches.predicate import Predicate
from fullgraph.rewrites.branches.selection import Selection, in_place
from fullgraph.rewrites.branches.ways import ways
from fullgraph.rewrites.document import Replacement


def decided(
    writer: Selection | Conditional, node: cst.If | cst.IfExp, test: Predicate
) -> dict[cst.CSTNode, Replacement]:
    """The edits that write `node` with `torch.where` or `torch.cond`. Raises Escape."""
    if isinstance(node, cst.IfExp):
        return {node: writer.ternary(node, test)}
    found = ways(writer.site, node)
    if early.is_early(node) and not found.rest:
        if isinstance(writer, Selection):
            return early.selected(writer, node, test)
        return writer.early(node, test)
    lines = writer.branch(found, test)
    new = in_place(found, lines, writer.site.document.parent(node))
    return {node: new, **{one: cst.RemoveFromParent() for one in found.rest}}
