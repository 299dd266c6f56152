"""Statements that take the place of an `if`, with its comments and its guard."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.analysis import walk
from fullgraph.rewrites.source import Replacement, leading_lines
from fullgraph.rewrites.transforms.branches.branches import Branches

Lines = list[cst.BaseStatement]


def guard_with(guard: cst.BaseExpression, one: Lines, other: Lines) -> cst.If:
    """Return `if guard:` with the branches `one` and `other`, of which one may be empty."""
    if not one:
        opposite = cst.UnaryOperation(cst.Not(), guard)
        return cst.If(opposite, cst.IndentedBlock(other))
    orelse = cst.Else(cst.IndentedBlock(other)) if other else None
    return cst.If(guard, cst.IndentedBlock(one), orelse)


def replacement_of_if(branches: Branches, lines: Lines, parent: cst.CSTNode) -> Replacement:
    """Return `lines` as the replacement of an `if`, with the comments around the `if`.

    `parent` is the node that contains the `if`. An `elif` becomes an `else` with the lines.
    """
    node = branches.node
    if isinstance(parent, cst.If) and parent.orelse is node:
        return cst.Else(cst.IndentedBlock(lines), leading_lines=node.leading_lines)
    lost = [comment for one in (node, *branches.rest) for comment in lost_comments(one, lines)]
    kept = [*node.leading_lines, *lost]
    if not lines:
        return cst.RemoveFromParent()
    first = lines[0].with_changes(leading_lines=[*kept, *leading_lines(lines[0])])
    return cst.FlattenSentinel([first, *lines[1:]])


def lost_comments(node: cst.CSTNode, lines: Lines) -> list[cst.EmptyLine]:
    """Return the comments inside the statement `node` that the new `lines` do not repeat."""
    own = {c.value for line in lines for c in walk(line) if isinstance(c, cst.Comment)}
    ahead = {
        c.value
        for line in getattr(node, "leading_lines", ())
        for c in walk(line)
        if isinstance(c, cst.Comment)
    }
    inside = [c for c in walk(node) if isinstance(c, cst.Comment)]
    return [cst.EmptyLine(comment=c) for c in inside if c.value not in own | ahead]
