"""A loop that looks for the first `nonzero()` of each row breaks in each iteration.

TorchDynamo cannot give the indices a shape in its default mode, and compiles nothing of a function
in which a loop breaks. All rows can be searched at once.

Before:

    rows = []
    for row in x:
        hits = (row > 0.5).nonzero()
        if len(hits) > 0:
            rows.append(hits[0, 0])
        else:
            rows.append(torch.tensor(-1))
    return torch.stack(rows)

After:

    hits = x > 0.5
    return torch.where(hits.any(1), hits.int().argmax(1), -1)

The last index of a row and the number of hits likewise.

Refuses nothing: where the loop does more, or the list is used otherwise, FG407 goes row by row.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    find_definitions,
    split_statements,
    walk,
)
from fullgraph.rewrites.rule import Rewrite, Rule
from fullgraph.rewrites.source import build_statement, replace_nodes
from fullgraph.rewrites.transforms.masks.first_match import (
    FirstMatch,
    HitBranch,
    find_search,
    plain,
    select_match,
)
from fullgraph.rewrites.transforms.masks.nonzero import NonzeroIndices, find_indices


def rewrite(site: Site) -> Rewrite | None:
    found = find_indices(site)
    loop = next(
        (one for one in site.document.ancestors(site.node) if isinstance(one, cst.For)), None
    )
    if found is None or loop is None or not found.bound or not found.uses:
        return None
    try:
        asked = find_search(site, found)
    except NotApplicable:
        return None
    if asked is None or asked.choice is None or any(one.kept for one in asked.questions):
        return None
    rows = _find_result_list(site, loop, asked.choice)
    if rows is None or not _is_only_search(site, loop, found, asked):
        return None
    made, stack = rows
    mask = {one: loop.iter for one in walk(found.truth) if _is_loop_variable(one, loop)}
    name = cst.ensure_type(found.uses[0], cst.Name).value
    first = build_statement("{name} = {mask}", name=name, mask=replace_nodes(found.truth, mask))
    return Rewrite(
        {
            made: cst.RemoveFromParent(),
            loop: first.with_changes(leading_lines=loop.leading_lines),
            stack: select_match(site, asked, asked.choice, cst.Name(name), "1"),
        },
        "All rows are searched at once, at a fixed shape.",
        imports=("torch",),
        tests=asked.tests,
    )


def _find_result_list(
    site: Site, loop: cst.For, choice: HitBranch
) -> tuple[cst.CSTNode, cst.Call] | None:
    """Return the statement that creates the result list, and the call that stacks the list.

    These are `rows = []` and `torch.stack(rows)`. None if the loop does not append its results to
    one such list.
    """
    document = site.document
    known = find_definitions(document, loop)
    appends = [one for one in walk(choice.statement) if _is_append(one)]
    if known is None or not appends:
        appends = [one for one in document.ancestors(choice.statement) if _is_append(one)]
    if known is None or not appends:
        return None
    append = cst.ensure_type(appends[0], cst.Call).func
    name = document.code(cst.ensure_type(append, cst.Attribute).value)
    bindings = known.before.get(loop, {}).get(name, frozenset())
    made = next(iter(bindings)) if len(bindings) == 1 else None
    assign = document.parents.get(document.parents.get(made, loop)) if made is not None else None
    if not isinstance(assign, cst.Assign) or made is None:
        return None
    if not isinstance(assign.value, cst.List) or assign.value.elements:
        return None
    outside = [use for use in known.uses(made) if loop not in document.ancestors(use)]
    inside = [use for use in known.uses(made) if loop in document.ancestors(use)]
    if len(outside) != 1 or len(inside) != len(appends):
        return None
    stack = document.parents.get(document.parent(outside[0]))
    if not isinstance(stack, cst.Call) or site.callee_name(stack) != "torch.stack":
        return None
    line = document.statement(assign)
    alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    return (line, stack) if len(stack.args) == 1 and alone else None


def _is_only_search(site: Site, loop: cst.For, found: NonzeroIndices, asked: FirstMatch) -> bool:
    """Return whether a loop only looks for the first match in each row of a matrix.

    `found` are the indices of the matching elements in a row, `asked` how the loop uses them.
    False if the condition reads another tensor than the row, such as in `row > limit`.
    """
    assert asked.choice is not None
    rows = site.observed(loop.iter)
    names = {one.value for one in walk(found.mask) if isinstance(one, cst.Name)}
    if not isinstance(loop.target, cst.Name) or not isinstance(loop.iter, cst.Name):
        return False
    if rows is None or not rows.is_tensor or rows.dims != {2} or loop.orelse is not None:
        return False
    if names != {loop.target.value} or any(isinstance(one, cst.Call) for one in walk(found.mask)):
        return False
    numbers = cst.Integer | cst.UnaryOperation
    otherwise = plain(site, asked.choice.otherwise)
    found_it = asked.choice.found
    if not isinstance(otherwise, numbers) or all(
        one.node is not found_it for one in asked.questions
    ):
        return False
    known = find_definitions(site.document, loop)
    after = (
        [use for use in known.reaching if _is_loop_variable(use, loop)] if known is not None else []
    )
    here = all(loop in site.document.ancestors(use) for use in (*after, *found.uses))
    return here and len(split_statements(loop.body)) == 2


def _is_loop_variable(node: cst.CSTNode, loop: cst.For) -> bool:
    """Return whether `node` is a variable with the same name as the target of `loop`."""
    target = loop.target
    return (
        isinstance(node, cst.Name) and isinstance(target, cst.Name) and node.value == target.value
    )


def _is_append(node: cst.CSTNode) -> bool:
    """Return whether a node is a call of `append`."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "append"
    )


RULE = Rule("FG406", "search-all-rows", frozenset({Category.NONZERO.value}), rewrite)
