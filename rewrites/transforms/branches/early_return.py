"""Rewrite an early return, `if t: return a`, as one return at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    always_exits,
    find_all,
    names_bound,
    names_read,
    walk,
)
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    build_statement,
    leading_lines,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches.assignments import (
    RETURN,
    statements_of,
    values_assigned,
)
from fullgraph.rewrites.transforms.branches.block_lines import Lines, lost_comments
from fullgraph.rewrites.transforms.branches.branches import last_line
from fullgraph.rewrites.transforms.branches.choice import copied_tensor
from fullgraph.rewrites.transforms.branches.own_tensors import parts_evaluated
from fullgraph.rewrites.transforms.branches.predicate import Predicate
from fullgraph.rewrites.transforms.branches.shared_calls import reuse_results, share_calls
from fullgraph.rewrites.transforms.branches.shortcut import (
    count_work,
    leave_in_eager,
    work_in_eager,
)
from fullgraph.rewrites.transforms.branches.use_where import WhereWriter
from fullgraph.rewrites.transforms.eager_only import compiling_condition

_JUMPS = cst.Return | cst.Raise | cst.Break | cst.Continue


@dataclass(frozen=True)
class LaterStatements:
    """Statements after an early return, up to the last return."""

    statements: Sequence[cst.BaseStatement]
    line: cst.SimpleStatementLine
    """The line of the last return."""
    value: cst.BaseExpression


def is_early_return(node: cst.If) -> bool:
    """Return whether an `if` without `else` ends with a `return`."""
    last = last_line(node)
    return last is not None and isinstance(last.body[-1], cst.Return)


def statements_after(site: Site, node: cst.If | cst.For) -> LaterStatements:
    """Return the statements after an early return, or after the loop that contains it.

    `node` is the `if` of the early return, or the loop. Raises NotApplicable if the last statement
    is not a return, or if there are other returns.
    """
    outer = site.document.parent(node)
    if not isinstance(outer, cst.IndentedBlock):
        raise NotApplicable("it is an `elif` that returns")
    body = outer.body[outer.body.index(node) + 1 :]
    last = body[-1] if body else None
    if not isinstance(last, cst.SimpleStatementLine) or not always_exits(site.document, last):
        raise NotApplicable("the other branch does not return a value in the same block")
    final = last.body[-1]
    if not isinstance(final, cst.Return) or final.value is None or len(last.body) > 1:
        raise NotApplicable("the other branch does not return a value in the same block")
    for one in body[:-1]:
        for jump in walk(one):
            if isinstance(jump, cst.Return | cst.Raise):
                raise NotApplicable("there are other returns or errors after it")
    return LaterStatements(body[:-1], last, final.value)


def select_return(
    selection: WhereWriter, node: cst.If, condition: Predicate
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that write an early return with `torch.where`.

    `if t: return a` and a later `return b` become one `return torch.where(t, a, b)`. `selection`
    collects the assumptions. Raises NotApplicable if the two returns cannot be merged.
    """
    site = selection.site
    body = selection.without_output(statements_of(node.body))
    after = statements_after(site, node)
    elsewhere = {
        *names_bound(*after.statements),
        *names_read(*after.statements, after.value, condition.tensor),
    }
    made = values_assigned(site, body, frozenset({RETURN}))
    if shared := elsewhere & set(names_bound(*made.local_lines)):  # written in place of their uses
        made = values_assigned(site, body, frozenset({RETURN, *shared}))
    early = made.values[RETURN]
    if kept := [key for key in made.values if key != RETURN and not key.isidentifier()]:
        raise NotApplicable(f"`{kept[0]}` is changed where it returns early")
    if shared := elsewhere & set(names_bound(*made.local_lines)):
        raise NotApplicable(f"`{min(shared)}` is something else on each branch")
    choice = selection.choice(condition)
    own = [
        selection.unconditional_line(choice, line, not condition.negated)
        for line in made.local_lines
    ]
    choice.require_pure(*parts_evaluated(site, after.statements), after.value, early)
    choice.agreement.assume_zero_gradients([*own, early], [*after.statements, after.value])
    edits: dict[cst.CSTNode, Replacement] = {}
    for one in after.statements:
        edits |= choice.make_finite_edits(one, condition.negated)
    changed = set(names_bound(*after.statements))
    pair = (after.value, early) if condition.negated else (early, after.value)
    value = choice.select(*pair)
    lines: Lines = [*own]
    names: dict[cst.CSTNode, Replacement] = {}
    if names_read(early) & changed:
        if early not in walk(value):
            raise NotApplicable("what is returned early is used again later")
        name = site.document.unused_local(node, "early")
        bare = early.with_changes(lpar=(), rpar=())
        lines.append(build_statement("{n} = {v}", n=name, v=bare))
        names[early] = cst.Name(name)
    if early not in names:
        value = _without_clone(early, value)
        if not edits:
            lines_after = [*after.statements, after.line]
            value = reuse_results(site, node.test, early, lines_after, value)
    selection.tests.append(node.test)
    alone = len(statements_of(node.body)) == 1
    works, goes_on = (count_work(site, one) for one in (body, [*after.statements, after.value]))
    saves = alone and goes_on > works and (not works or condition.guard is None)
    skips = works > 0 and not (goes_on or after.statements) and condition.guard is None
    selection.has_shortcut |= saves or skips
    same = value.deep_equals(after.value) and not (lines or after.statements or saves)
    if condition.guard is not None and same and not find_all(condition.guard, m.Call()):
        return _place_edits(node, [], after, [after.line], edits)
    if condition.guard is not None:
        chosen = _return_lines(site, node, early, after, value)
        found = _rewrite_guarded(node, condition, after, chosen, choice.uses, lines)
        if saves and not condition.disjunction and after.value in walk(value):
            return _select_compiled(site, node, condition.guard, after, value)
        if saves:
            leave = leave_in_eager(site.document, node.test, node.body)
            leave = leave.with_changes(leading_lines=node.leading_lines)
            later = cst.ensure_type(found[node], cst.If).with_changes(leading_lines=())
            found[node] = cst.FlattenSentinel([leave, later])
        return found
    plain = isinstance(choice.test, cst.Name) and choice.test.value not in changed
    if saves:
        leave = leave_in_eager(site.document, condition.truth_of(choice.test), node.body)
        lines = [leave, *lines]
    if not plain and (choice.uses > 1 or after.statements or saves or skips):
        name = site.document.unused_local(node, "condition")
        names[choice.test] = cst.Name(name)
        lines = [replace_nodes(line, {choice.test: names[choice.test]}) for line in lines]
        lines.insert(0, build_statement("{c} = {t}", c=name, t=choice.test))
        edits = {old: replace_nodes(new, names) for old, new in edits.items()}  # type: ignore[type-var]
    final = _return_lines(site, node, early, after, replace_nodes(value, names))
    if skips:
        final[0] = final[0].with_changes(leading_lines=())
        named, work = lines[: not plain], [*lines[not plain :], *final]
        truth = replace_nodes(condition.truth_of(choice.test), names)
        lines = [*named, work_in_eager(site.document, truth, work)]
        above = [*node.leading_lines, *lost_comments(node, lines)]
        lines[0] = lines[0].with_changes(leading_lines=above)
        return {node: cst.FlattenSentinel(lines)}
    return edits | _place_edits(node, lines, after, final, edits)


def _place_edits(
    node: cst.If,
    lines: Lines,
    after: LaterStatements,
    final: Lines,
    edits: dict[cst.CSTNode, Replacement],
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that replace the `if` by `lines`, and the last return by `final`.

    `after` are the statements after the `if`, and `edits` are the edits inside these.
    """
    kept = [*node.leading_lines, *lost_comments(node, [*lines, *final])]
    last = cst.FlattenSentinel(final)
    if lines:
        first = lines[0].with_changes(leading_lines=kept)
        return {node: cst.FlattenSentinel([first, *lines[1:]]), after.line: last}
    if not after.statements:
        first = final[0].with_changes(leading_lines=[*kept, *after.line.leading_lines])
        last = cst.FlattenSentinel([first, *final[1:]])
        return {node: cst.RemoveFromParent(), after.line: last}
    head = after.statements[0]
    moved = replace_nodes(head, edits)
    moved = moved.with_changes(leading_lines=[*kept, *leading_lines(head)])
    return {node: cst.RemoveFromParent(), head: moved, after.line: last}


def _return_lines(
    site: Site,
    node: cst.If,
    early: cst.BaseExpression,
    after: LaterStatements,
    value: cst.BaseExpression,
) -> list[cst.BaseStatement]:
    """Return the last return, with `value`, after the calls that `early` makes as well."""
    final = after.line.with_changes(body=[cst.Return(value)])
    shared, final = share_calls(site, node.test, [early], [after.value], final)
    if not shared:
        return [final]
    first = shared[0].with_changes(leading_lines=after.line.leading_lines)
    return [first, *shared[1:], final.with_changes(leading_lines=())]


def _rewrite_guarded(
    node: cst.If,
    condition: Predicate,
    after: LaterStatements,
    chosen: Lines,
    uses: int,
    lines: Lines,
) -> dict[cst.CSTNode, Replacement]:
    """Rewrite `if guard and t: return a`; the Python condition `guard` stays an `if`.

    `chosen` returns the selection instead of `a`. Raises NotApplicable if more than the returned
    value depends on `t`: if statements follow the `if`, if `uses`, the number of `torch.where`
    calls, is greater than 1, or if there are `lines` to insert.
    """
    if after.statements or uses > 1 or lines:
        raise NotApplicable("a test of Python and one of a tensor decide on more than a result")
    first = chosen[0].with_changes(leading_lines=())
    assert condition.guard is not None
    if condition.disjunction != condition.negated:
        raise NotApplicable("its test mixes `not`, `or` and a test of Python")
    if not condition.disjunction:
        kept = node.with_changes(test=condition.guard, body=cst.IndentedBlock([first, *chosen[1:]]))
        return {node: kept}
    last = cst.FlattenSentinel([first, *chosen[1:]])
    return {node: node.with_changes(test=condition.guard), after.line: last}


def _select_compiled(
    site: Site,
    node: cst.If,
    guard: cst.BaseExpression,
    after: LaterStatements,
    value: cst.BaseExpression,
) -> dict[cst.CSTNode, Replacement]:
    """Rewrite `if guard and t: return a`, which eager code keeps; compiled code selects later.

    `value` is the selection between `a` and `after.value`, which is computed once.
    """
    document = site.document
    name = document.unused_local(node, "result")
    test = build_expression(f"{compiling_condition(document)} and {{g}}", g=guard)
    selected = replace_nodes(value, {after.value: cst.Name(name)})
    lines = [
        build_statement(f"{name} = {{v}}", v=after.value.with_changes(lpar=(), rpar=())),
        cst.If(test, cst.IndentedBlock([build_statement(f"{name} = {{v}}", v=selected)])),
        build_statement(f"return {name}"),
    ]
    lines[0] = lines[0].with_changes(leading_lines=after.line.leading_lines)
    lines[-1] = lines[-1].with_changes(trailing_whitespace=after.line.trailing_whitespace)
    leave = leave_in_eager(document, node.test, node.body)
    leave = leave.with_changes(leading_lines=node.leading_lines)
    return {node: leave, after.line: cst.FlattenSentinel(lines)}


def _without_clone(early: cst.BaseExpression, value: cst.BaseExpression) -> cst.BaseExpression:
    """Return `torch.where(t, x, b)` for `torch.where(t, x.clone(), b)`, which is a new tensor too.

    `early` is the value that may be `x.clone()`, and `value` the selection.
    """
    tensor = copied_tensor(early)
    if tensor is None:
        return value
    # the other value stays the same object, which is looked for later
    return replace_nodes(value, {early: tensor}, lambda node: early in walk(node))
