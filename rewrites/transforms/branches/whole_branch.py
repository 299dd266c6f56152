"""Rewrite a whole branch: a conditional expression, an early return or an `if`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import libcst as cst

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    find_definitions,
    is_tensor,
    may_be_int,
    names_bound,
    names_bound_before,
    names_read,
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
from fullgraph.rewrites.transforms.branches.selected_list import join_guard
from fullgraph.rewrites.transforms.branches.shared_calls import share_calls
from fullgraph.rewrites.transforms.branches.use_cond import CondWriter
from fullgraph.rewrites.transforms.branches.use_where import WhereWriter
from fullgraph.rewrites.transforms.number_tensor import assumed_of_readers, convert_to_tensor

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
    ahead = _convert_index(writer, node) if isinstance(writer, WhereWriter) else []
    if isinstance(node, cst.IfExp):
        new = writer.ternary(node, condition)
        if isinstance(writer, WhereWriter) and writer.ahead is not None:
            ahead.append(writer.ahead)
        if isinstance(writer, WhereWriter):
            with suppress(NotApplicable):
                _line_of(writer.site, node)
                sides = [node.body], [node.orelse]
                shared, new = share_calls(writer.site, node.test, *sides, new)
                ahead += shared
        if not ahead:
            return {node: new}
        line = _line_of(writer.site, node)
        return _put_ahead(line, ahead, {line: replace_nodes(line, {node: new})})
    if (skip := find_guarded_skip(writer.site, node)) is not None:
        made = _edits_for_guarded_skip(writer, node, skip, condition)
        return _put_ahead(skip.node, ahead, made) if ahead else made
    found = find_branches(writer.site, node)
    if early.is_early_return(node) and not found.rest:
        if isinstance(writer, WhereWriter):
            made = early.select_return(writer, node, condition)
            return _put_ahead(node, ahead, made) if ahead else made
        return writer.early(node, condition)
    if isinstance(writer, WhereWriter):
        condition = join_guard(writer.site, found, condition, writer.assumes)
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
    guarded = replace(condition, guard=outer.test)
    if join_guard(writer.site, found, guarded, {}) is not guarded:
        raise NotApplicable("its outer test decides too on which elements count")
    lines = writer.branch(found, guarded)
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


def _convert_index(writer: WhereWriter, node: Node) -> list[cst.BaseStatement]:
    """Return `[n = torch.as_tensor(n, device=x.device)]` for `if n >= 0:` and a subscript `x[n]`.

    Empty unless `n`, which was a tensor, may be an int in another run.
    """
    site = writer.site
    match node.test:
        case cst.Comparison(left=cst.Name() as name, comparisons=[_]):
            known = find_definitions(site.document, name)
        case _:
            return []
    if known is None or not is_tensor(site, name) or not may_be_int(site, known, name):
        return []
    bindings = known.reaching[name]
    function = site.document.function(node)
    tables = [
        dotted_name(one.value)
        for one in walk(function if function is not None else node)
        if isinstance(one, cst.Subscript)
        for part in one.slice
        if isinstance(part.slice, cst.Index)
        and isinstance(part.slice.value, cst.Name)
        and known.reaching.get(part.slice.value) == bindings
    ]
    bound = set(names_bound_before(site.document, node)) - set(names_bound(node))
    table = next((one for one in tables if one.partition(".")[0] in bound), "")
    if (clause := assumed_of_readers(site.document, known, name, table)) is not None:
        writer.assumes[clause] = None
    return [convert_to_tensor(site.document, name.value, table)]


def _put_ahead(
    node: cst.CSTNode, ahead: list[cst.BaseStatement], edits: dict[cst.CSTNode, Replacement]
) -> dict[cst.CSTNode, Replacement]:
    """Return `edits`, which replace `node`, with the statements `ahead` before the new ones."""
    made = edits[node]
    parts = made.nodes if isinstance(made, cst.FlattenSentinel) else [made]
    lines = [one for one in parts if isinstance(one, cst.BaseStatement)]
    above = leading_lines(lines[0] if lines else node)
    lines[:1] = [one.with_changes(leading_lines=()) for one in lines[:1]]
    first, *others = ahead
    return {
        **edits,
        node: cst.FlattenSentinel([first.with_changes(leading_lines=above), *others, *lines]),
    }


def _line_of(site: Site, node: cst.IfExp) -> cst.SimpleStatementLine:
    """Return the line that contains the conditional expression `node`.

    Raises NotApplicable if the condition cannot be evaluated before the rest of the line: not if
    the line assigns with `:=` what `node` reads.
    """
    line = site.document.statement(node)
    between = list(itertools.takewhile(lambda one: one is not line, site.document.ancestors(node)))
    parts = cst.BooleanOperation | cst.IfExp | cst.Lambda | cst.BaseComp
    values = [one for one in between if isinstance(one, cst.BaseExpression)]
    named = [one for one in walk(line) if isinstance(one, cst.NamedExpr)]
    if (
        not isinstance(line, cst.SimpleStatementLine)
        or len(line.body) > 1
        or any(isinstance(one, parts) for one in between)
        or names_read(node) & {name for one in named for name in names_bound(one)}
        or side_effect_of(site, *values)
    ):
        raise NotApplicable("the test would have to be written several times")
    return line
