"""Iterations of a loop over all indices that change nothing for an index that does not occur."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    names_bound,
    names_mutated,
    names_read,
    operation_of,
    statements_after,
    walk,
)
from fullgraph.rewrites.source import (
    Replacement,
    build_statement,
    dotted_name,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches.agreement import Agreement
from fullgraph.rewrites.transforms.branches.choice import Choice
from fullgraph.rewrites.transforms.branches.loop_lines import LoopLines


def _is_carried(site: Site, node: cst.CSTNode, carried: frozenset[str], index: str) -> bool:
    """Return whether an assignment to one of the names `carried` does not itself keep its value.

    So does one to a row, `means[k] = …` for the `index` `k`.
    """
    row = [cst.SubscriptElement(cst.Index(cst.Name(index)))]
    match node:
        case (
            cst.AugAssign(target=cst.Subscript(slice=places))
            | cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(slice=places))])
        ):
            return len(places) == 1 and places[0].deep_equals(row[0])
        case cst.AugAssign(target=cst.Name(name)):
            return name in carried
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value):
            made = operation_of(site, value)
            is_kept = made is not None and made.name == "where" and name in names_read(value)
            return name in carried and not is_kept
    return False


def mask_absent(
    site: Site, loop: cst.For, tensor: cst.BaseExpression
) -> tuple[cst.For, dict[str, None]] | None:
    """Return the loop with iterations that change nothing for an index that `tensor` lacks.

    Also returns the assumptions. None if no value is carried to the next iteration, except by a
    `torch.where` that keeps it, or if a line cannot be masked.
    """
    name = cst.ensure_type(loop.target, cst.Name).value
    absent = site.document.unused_local(site.node, "absent")
    lines = LoopLines(site)
    choice = Choice(site, cst.Name(absent), Agreement(site, lines.assumes), integer=name)
    carried = lines.carried_names(loop)
    if not any(_is_carried(site, one, carried, name) for one in walk(loop.body)):
        return None
    edits: dict[cst.CSTNode, Replacement] = {}
    try:
        for line in loop.body.body:
            edits |= lines.mask_line(choice, loop, line)
    except NotApplicable:
        return None
    if lines.unset:
        return None
    flag = build_statement(f"{absent} = ({{t}} != {name}).all()", t=tensor.deep_clone())
    masked = replace_nodes(loop, edits)
    body = cst.ensure_type(masked.body, cst.IndentedBlock)
    return masked.with_changes(body=body.with_changes(body=[flag, *body.body])), lines.assumes


@dataclass(frozen=True)
class NamedTensor:
    """Tensor that says which indices occur, as an expression that costs nothing."""

    value: cst.BaseExpression
    """A name, or an attribute path."""
    assignment: cst.SimpleStatementLine | None = None
    """The assignment of the name; None if the tensor has the name already."""


def name_tensor(
    site: Site, loop: cst.For, line: cst.SimpleStatementLine | None, tensor: cst.BaseExpression
) -> NamedTensor | None:
    """Return `tensor`, which decides the indices of a loop, with a name; None if it may be updated.

    `line` is the assignment of the indices; None if they are computed in the loop's header.
    """
    after = [loop.body] if line is None else statements_after(site.document, line)
    if names_read(tensor) & {*names_mutated(*after)}:
        return None
    path = dotted_name(tensor)
    if path and path not in names_bound(*after):
        return NamedTensor(tensor)
    match line:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))])]):
            assignment = line
        case _:
            name = site.document.unused_local(site.node, "hit", "occurs")
            assignment = cst.SimpleStatementLine([], loop.leading_lines)
    bare = tensor.with_changes(lpar=(), rpar=())
    assign = cst.Assign([cst.AssignTarget(cst.Name(name))], bare)
    return NamedTensor(cst.Name(name), assignment.with_changes(body=[assign]))
