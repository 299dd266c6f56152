"""Conditions that imply a true element of a mask wherever an index of the mask is used."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.rewrites.analysis import (
    Site,
    always_exits,
    find_definitions,
    infer,
    may_change,
    names_read,
    operation_of,
    word_set,
)
from fullgraph.rewrites.transforms.branches.predicate import tensor_of
from fullgraph.rewrites.transforms.branches.tested import (
    has_same_value,
    is_positive_test,
    is_zero_test,
    value_of_name,
)

_ZERO_OF_ZEROS = word_set("abs amax any bool count_nonzero double float int long max sum")
"""Operations whose result is zero if all elements of their operand are."""

_Truth = tuple[cst.BaseExpression, bool]
"""A condition, and whether it holds or fails."""


def is_in_where(site: Site, use: cst.CSTNode) -> bool:
    """Return whether a value is used only where `torch.where` selects or drops it."""
    return _selections(site, use) is not None


def is_match_implied(
    site: Site, mask: cst.BaseExpression, use: cst.CSTNode, selected: bool = False
) -> bool:
    """Return whether a condition implies that `mask` has a true element where `use` is computed.

    `use` is in a branch or after an early exit, and the condition is `mask.any()`, `mask.sum() > 0`
    or their opposite. With `selected`, also if `torch.where` selects `use` by such a condition: it
    computes `use` without a match, too. Only the source decides.
    """
    function = site.document.function(use)
    bare = _without_comparison(mask)
    if not isinstance(function, cst.FunctionDef) or may_change(
        site, names_read(bare), [function.body]
    ):
        return False
    found = _selections(site, use) if selected else None
    paths = [[*_conditions(site, use), *one] for one in found or [[]]]
    return all(any(_implies(site, bare, *one) for one in path) for path in paths)


def _conditions(site: Site, node: cst.CSTNode) -> Iterator[_Truth]:
    """Yield the conditions of the branches and early exits that decide whether a node runs."""
    below = node
    for outer in site.document.ancestors(node):
        match outer:
            case cst.FunctionDef() | cst.Lambda():
                return
            case cst.If() | cst.IfExp() if below in (outer.body, outer.orelse):
                yield outer.test, below is outer.body
            case cst.IndentedBlock():
                for one in outer.body[: outer.body.index(below)]:
                    if not isinstance(one, cst.If) or one.orelse is not None:
                        continue
                    if always_exits(site.document, one.body):
                        yield one.test, False
        below = outer


def _selections(site: Site, node: cst.CSTNode, depth: int = 4) -> list[list[_Truth]] | None:
    """Return for each use of a value the conditions of `torch.where` under which it counts.

    The value has no name, or a local one. None if a use is in no branch of `torch.where`.
    """
    below, found = node, []
    for outer in site.document.ancestors(node):
        match outer:
            case cst.Call(args=[test, one, other]) if (
                below in (one, other)
                and site.callee_name(outer) == "torch.where"
                and not any(arg.keyword or arg.star for arg in outer.args)
            ):
                found.append((test.value, below is one))
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)]) if (
                not found and depth > 0
            ):
                return _selections_of_name(site, target, depth - 1)
            case cst.BaseSmallStatement() | cst.BaseCompoundStatement() | cst.Lambda():
                break
        below = outer
    return [found] if found else None


def _selections_of_name(site: Site, target: cst.Name, depth: int) -> list[list[_Truth]] | None:
    """Return `_selections` of all uses of a local name; None if one is in no `torch.where`."""
    known = find_definitions(site.document, target)
    uses = known.uses(target) if known is not None else []
    found = [_selections(site, use, depth) for use in uses]
    if not found or None in found:
        return None
    return [path for paths in found if paths is not None for path in paths]


def _implies(site: Site, mask: cst.BaseExpression, test: cst.BaseExpression, when: bool) -> bool:
    """Return whether `mask` has an element other than zero where `test` is `when`."""
    if when and has_same_value(site, _without_comparison(test), mask):
        return True
    test = value_of_name(site, tensor_of(site, value_of_name(site, test)))
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=opposite):
            return _implies(site, mask, opposite, not when)
        case cst.UnaryOperation(operator=cst.BitInvert(), expression=opposite):
            seen = infer(site, opposite)
            is_bool = seen is not None and seen.dtypes == {"bool"}
            return is_bool and _implies(site, mask, opposite, not when)
        case cst.BooleanOperation() | cst.BinaryOperation():
            joins = cst.And | cst.BitAnd if when else cst.Or | cst.BitOr
            parts = (test.left, test.right)
            return isinstance(test.operator, joins) and any(
                _implies(site, mask, part, when) for part in parts
            )
        case cst.Comparison(left=left, comparisons=[one]):
            compares = is_positive_test(one) if when else is_zero_test(one)
            return compares and _implies(site, mask, left, True)
    made = operation_of(site, test) if isinstance(test, cst.Call) else None
    if made is None or made.in_place or made.keywords or len(made.operands) != 1:
        return False
    if made.name == "logical_not":
        return _implies(site, mask, made.operands[0], not when)
    return when and made.name in _ZERO_OF_ZEROS and _implies(site, mask, made.operands[0], True)


def _without_comparison(mask: cst.BaseExpression) -> cst.BaseExpression:
    """Return `t` for `t != 0`; other masks unchanged."""
    match mask:
        case cst.Comparison(
            left=tensor,
            comparisons=[cst.ComparisonTarget(cst.NotEqual(), cst.Integer(value="0"))],
        ):
            return tensor
    return mask
