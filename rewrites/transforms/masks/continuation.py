"""Move what follows `if mask is not None: x = x[mask]` into the branches that use the mask."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.source import Replacement, replace_nodes


def find_continuation(site: Site, node: cst.BaseExpression) -> tuple[cst.SimpleStatementLine, ...]:
    """Return the statements after the `if` that contains `node`, up to the first `return`.

    () unless the statement of `node` is the last one of a branch, and only simple statements follow
    the `if` until a `return`.
    """
    document = site.document
    last = document.statement(node)
    block = document.parent(last)
    outer = document.parents.get(block)
    if not isinstance(block, cst.IndentedBlock) or block.body[-1] is not last:
        return ()
    if not isinstance(outer, cst.If | cst.Else):
        return ()
    around = document.parents.get(outer)
    while isinstance(outer, cst.Else) or (isinstance(around, cst.If) and around.orelse is outer):
        if not isinstance(around, cst.If):
            return ()
        outer, around = around, document.parents.get(around)
    if not isinstance(around, cst.IndentedBlock):
        return ()
    found: list[cst.SimpleStatementLine] = []
    for one in around.body[list(around.body).index(outer) + 1 :]:
        if not isinstance(one, cst.SimpleStatementLine):
            return ()
        found.append(one)
        if isinstance(one.body[-1], cst.Return):
            return tuple(found)
    return ()


def copy_continuation(
    site: Site,
    line: cst.BaseStatement,
    rest: tuple[cst.SimpleStatementLine, ...],
    edits: Mapping[cst.CSTNode, cst.CSTNode],
    replacements: Mapping[cst.CSTNode, Replacement],
) -> dict[cst.CSTNode, Replacement]:
    """Return `replacements` with a copy of `rest` added to the branch that ends with `line`.

    `rest` are the statements after the `if`. The copy contains the `edits`, which compute at full
    shape. The original of `rest` stays unchanged, and runs if the branch is not taken.
    """
    document = site.document

    def within(node: cst.CSTNode) -> bool:
        return document.statement(node) in rest

    own = {node: new for node, new in edits.items() if line in document.ancestors(node)}
    known = replacements.get(line)
    head = [*known.nodes] if isinstance(known, cst.FlattenSentinel) else [replace_nodes(line, own)]
    copies = [
        replace_nodes(one, {node: new for node, new in edits.items() if within(node)}).with_changes(
            leading_lines=()
        )
        for one in rest
    ]
    others = {
        node: new for node, new in replacements.items() if node not in own and not within(node)
    }
    return {
        **others,
        **_move_to_other_branch(site, line, rest),
        line: cst.FlattenSentinel([*head, *copies]),
    }


def _move_to_other_branch(
    site: Site, line: cst.BaseStatement, rest: tuple[cst.SimpleStatementLine, ...]
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that move `rest` to the end of the branch that does not contain `line`.

    `rest` are the statements after the `if` around `line`. They are wanted in both branches: the
    caller copies them to the branch with `line`, and this function moves them to the other. {} if
    there is no `else`, or if the other branch already ends with `return`, `raise`, `break` or
    `continue`.
    """
    around = [one for one in site.document.ancestors(line) if isinstance(one, cst.If | cst.Else)]
    choice = around[0] if isinstance(around[0], cst.If) else site.document.parent(around[0])
    if not isinstance(choice, cst.If) or not isinstance(choice.orelse, cst.Else):
        return {}
    bodies = [choice.body, choice.orelse.body]
    other = next(body for body in bodies if line not in body.body)
    last = other.body[-1]
    outer = site.document.parent(choice)
    if isinstance(outer, cst.If) or not isinstance(last, cst.SimpleStatementLine):
        return {}
    if isinstance(last.body[-1], cst.Return | cst.Raise | cst.Continue | cst.Break):
        return {}
    moved = cst.FlattenSentinel([last, *rest])
    return {last: moved, **{one: cst.RemoveFromParent() for one in rest}}
