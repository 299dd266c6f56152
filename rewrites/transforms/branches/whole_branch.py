"""Rewrite a whole branch: a conditional expression, an early return or an `if`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    find_definitions,
    is_tensor,
    may_be_int,
    names_bound,
    side_effect_of,
    walk,
)
from fullgraph.rewrites.rule import Refusal, Rewrite
from fullgraph.rewrites.source import (
    Replacement,
    dotted_name,
    leading_lines,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches import early_return as early
from fullgraph.rewrites.transforms.branches.agreement import rewrite_assuming
from fullgraph.rewrites.transforms.branches.assignments import statements_of
from fullgraph.rewrites.transforms.branches.block_lines import lost_comments, replacement_of_if
from fullgraph.rewrites.transforms.branches.branches import (
    Branches,
    find_branches,
    find_guarded_skip,
    leaves_early,
)
from fullgraph.rewrites.transforms.branches.output import keep_output
from fullgraph.rewrites.transforms.branches.predicate import Predicate, find_condition, predicate_of
from fullgraph.rewrites.transforms.branches.use_cond import CondWriter
from fullgraph.rewrites.transforms.branches.use_where import WhereWriter
from fullgraph.rewrites.transforms.number_tensor import convert_to_tensor

Node = cst.If | cst.IfExp


def rewrite_conditional(
    site: Site,
    writer: WhereWriter | CondWriter,
    why: str,
    edits: Callable[[Node, Predicate], dict[cst.CSTNode, Replacement] | None],
) -> Rewrite | Refusal | None:
    """Return the rewrite of the site's conditional, with the edits that `edits` returns.

    `edits` is called with the conditional and its predicate. `why` explains the rewrite to the
    user, and `writer` collects the assumptions. None if no tensor decides the conditional, if it
    raises or leaves a loop, or if `edits` returns None. A refusal if `edits` raises NotApplicable.
    """
    found = find_condition(site)
    node = found.find_conditional if found is not None else None
    if found is None or not isinstance(node, Node) or leaves_early(site, node):
        return None
    try:
        condition = predicate_of(site, found.expression)
        made = edits(node, condition) if condition is not None else None
        if made is not None and isinstance(writer, WhereWriter) and writer.output:
            made = keep_output(site, node, writer.output, made)
    except NotApplicable as escape:
        return Refusal(str(escape))
    if made is None:
        return None
    if found.gone is not None:
        made[found.gone] = cst.RemoveFromParent()
    if isinstance(writer, WhereWriter):
        made |= writer.elsewhere
        if writer.output:
            writer.assumes["nobody needs this output from the compiled program"] = None
        rewrite = rewrite_assuming(
            site.document, made, why, writer.assumes, writer.tests, has_shortcut=writer.has_shortcut
        )
        exempts = frozenset({"text", "records"} if writer.output else ())
        return replace(rewrite, exempts=rewrite.exempts | exempts)
    return rewrite_assuming(site.document, made, why, writer.assumes, [node.test], numbers=False)


def edits_for_branch(
    writer: WhereWriter | CondWriter, node: Node, condition: Predicate
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that write `node`, with its condition, as `torch.where` or `torch.cond`.

    Raises NotApplicable if `writer` cannot do that.
    """
    ahead = _convert_index(writer.site, node) if isinstance(writer, WhereWriter) else []
    if isinstance(node, cst.IfExp):
        new = writer.ternary(node, condition)
        if isinstance(writer, WhereWriter) and writer.ahead is not None:
            ahead.append(writer.ahead)
        if not ahead:
            return {node: new}
        line = _line_of(writer.site, node)
        first, *others = ahead
        first = first.with_changes(leading_lines=line.leading_lines)
        new_line = replace_nodes(line, {node: new}).with_changes(leading_lines=())
        return {line: cst.FlattenSentinel([first, *others, new_line])}
    if (skip := find_guarded_skip(writer.site, node)) is not None:
        return _edits_for_guarded_skip(writer, node, skip, condition)
    found = find_branches(writer.site, node)
    if early.is_early_return(node) and not found.rest:
        if isinstance(writer, WhereWriter):
            return early.select_return(writer, node, condition)
        return writer.early(node, condition)
    lines = writer.branch(found, condition)
    block = replacement_of_if(found, [*ahead, *lines], writer.site.document.parent(node))
    return {node: block, **{one: cst.RemoveFromParent() for one in found.rest}}


def _edits_for_guarded_skip(
    writer: WhereWriter | CondWriter, node: cst.If, found: Branches, condition: Predicate
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits for `if guard: …; if t: continue`, whose guard stays an `if`.

    `node` is the inner `if`, and `found` are its branches. Raises NotApplicable if `t` is combined
    with another guard, or if more than the body of the outer `if` would change.
    """
    outer = found.node
    if condition.guard is not None:
        raise NotApplicable("its test mixes several tests of Python with several of tensors")
    lines = writer.branch(found, replace(condition, guard=outer.test))
    made = lines[-1] if lines else None
    if len(lines) != 1 or not isinstance(made, cst.If) or made.test is not outer.test:
        raise NotApplicable("more than the guarded block would change")
    kept = [*node.leading_lines, *lost_comments(node, lines)]
    first, *others = statements_of(made.body)
    assert isinstance(first, cst.BaseStatement)
    first = first.with_changes(leading_lines=[*kept, *leading_lines(first)])
    body = [*statements_of(outer.body)[:-1], first, *others]
    new = made.with_changes(
        body=outer.body.with_changes(body=body), leading_lines=outer.leading_lines
    )
    return {outer: new, **{one: cst.RemoveFromParent() for one in found.rest}}


def _convert_index(site: Site, node: Node) -> list[cst.BaseStatement]:
    """Return `[n = torch.as_tensor(n, device=x.device)]` for `x[n] if n >= 0 else y`.

    Empty unless `n`, which was a tensor, may be an int in another run.
    """
    match node.test:
        case cst.Comparison(left=cst.Name(value=name) as left, comparisons=[_]):
            known = find_definitions(site.document, left)
        case _:
            return []
    if known is None or not is_tensor(site, left) or not may_be_int(site, known, left):
        return []
    index = cst.SubscriptElement(cst.Index(cst.Name(name)))
    tables = [
        one.value
        for one in walk(node)
        if isinstance(one, cst.Subscript)
        and len(one.slice) == 1
        and one.slice[0].deep_equals(index)
    ]
    table = dotted_name(tables[0]) if tables else ""
    if not table or table.partition(".")[0] in names_bound(node):
        return []
    return [convert_to_tensor(site.document, name, table)]


def _line_of(site: Site, node: cst.IfExp) -> cst.SimpleStatementLine:
    """Return the line that contains the conditional expression `node`.

    Raises NotApplicable if the condition cannot be evaluated before the rest of the line.
    """
    line = site.document.statement(node)
    between = list(itertools.takewhile(lambda one: one is not line, site.document.ancestors(node)))
    parts = cst.BooleanOperation | cst.IfExp | cst.Lambda | cst.BaseComp
    values = [one for one in between if isinstance(one, cst.BaseExpression)]
    if (
        not isinstance(line, cst.SimpleStatementLine)
        or len(line.body) > 1
        or any(isinstance(one, parts) for one in between)
        or side_effect_of(site, *values)
    ):
        raise NotApplicable("the test would have to be written several times")
    return line
