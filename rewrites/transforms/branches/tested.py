"""What a condition asks: whether a mask selects anything, whether a tensor is finite."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    Site,
    find_definitions,
    infer,
    may_change,
    names_bound,
    names_mutated,
    names_read,
    only_value,
    operation_of,
    walk,
)
from fullgraph.rewrites.source import dotted_name, integer_literal
from fullgraph.rewrites.transforms.branches.predicate import tensor_of

_CONVERSIONS = ("double", "float", "half", "int", "long")
_COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
_FINITE_TESTS = ("isnan", "isinf", "isfinite")


def tested_for_finiteness(site: Site, test: cst.CSTNode) -> cst.BaseExpression | None:
    """Return `t` for a condition with `torch.isnan(t)` or another test of finiteness, or None."""
    for one in walk(test):
        made = operation_of(site, one) if isinstance(one, cst.Call) else None
        if made is not None and made.name in _FINITE_TESTS and made.operands:
            return made.operands[0]
    return None


def mask_of_any(site: Site, condition: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the boolean mask `m` of a condition that holds where `m` is true anywhere, or None.

    That is `m.any()`, `m.sum() > 0`, and `n > 0` after `n = m.sum()` or `n = m.sum().item()`.
    """
    match condition:
        case cst.Call(func=cst.Attribute(value=mask, attr=cst.Name("any")), args=[]):
            return _without_parentheses(mask) if _is_bool(site, mask) else None
        case cst.Comparison(left=count, comparisons=[one]) if is_positive_test(one):
            return counted_mask(site, count)
    return None


def mask_of_none(site: Site, condition: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the boolean mask `m` of a condition that holds where `m` is true nowhere, or None.

    That is `~m.any()`, `m.sum() == 0`, and `n == 0` after `n = m.sum()` or `n = m.sum().item()`.
    """
    match condition:
        case cst.UnaryOperation(operator=cst.BitInvert(), expression=opposite):
            return mask_of_any(site, opposite)
        case cst.Comparison(left=count, comparisons=[one]) if is_zero_test(one):
            return counted_mask(site, count)
    return None


def is_zero_test(target: cst.ComparisonTarget) -> bool:
    """Return whether a comparison with a count asks whether it is zero."""
    kind, number = type(target.operator), integer_literal(target.comparator)
    return (kind, number) in ((cst.Equal, 0), (cst.LessThan, 1))


def is_positive_test(target: cst.ComparisonTarget) -> bool:
    """Return whether a comparison with a count asks whether it is not zero."""
    kind, number = type(target.operator), integer_literal(target.comparator)
    return (kind, number) in (
        (cst.GreaterThan, 0),
        (cst.NotEqual, 0),
        (cst.GreaterThanEqual, 1),
    )


def is_nonnegative_test(target: cst.ComparisonTarget) -> bool:
    """Return whether a comparison asks whether an integer is 0 or more."""
    kind, number = type(target.operator), integer_literal(target.comparator)
    return (kind, number) in ((cst.GreaterThanEqual, 0), (cst.GreaterThan, -1))


def is_negative_test(target: cst.ComparisonTarget) -> bool:
    """Return whether a comparison asks whether an integer is less than 0."""
    return isinstance(target.operator, cst.LessThan) and integer_literal(target.comparator) == 0


def counted_mask(site: Site, count: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the boolean mask whose true elements `count` counts; None if there is none."""
    between: Sequence[cst.CSTNode] = ()
    if isinstance(count, cst.Name):
        value, block = only_value(site.document, count), site.document.parent(site.statement)
        if value is None or not isinstance(block, cst.IndentedBlock):
            return None
        made = site.document.statement(value)
        places = [number for number, one in enumerate(block.body) if one in (made, site.statement)]
        if len(places) != 2:
            return None
        count, between = value, block.body[places[0] + 1 : places[1]]
    match tensor_of(site, count):
        case cst.Call(func=cst.Attribute(value=mask, attr=cst.Name("sum")), args=[]):
            read = names_read(mask)
            changed = read & {*names_bound(*between)} or may_change(site, read, between)
            if _is_bool(site, mask) and not changed:
                return _without_parentheses(mask)
    return None


def is_count(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether a value counts true elements: `n` after `n = (x > 0).float().sum()`."""
    match tensor_of(site, value_of_name(site, node)):
        case cst.Call(func=cst.Attribute(value=mask, attr=cst.Name("sum")), args=[]):
            return _is_bool(site, mask) or _is_converted_comparison(site, mask)
    return False


def _is_bool(site: Site, tensor: cst.BaseExpression) -> bool:
    """Return whether a tensor is known to have the dtype bool."""
    seen = infer(site, tensor)
    return seen is not None and seen.dtypes == {"bool"}


def _is_converted_comparison(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether a tensor holds 1 and 0 alone, as the source says: `(x > 0).float()`."""
    match value_of_name(site, node):
        case cst.Call(func=cst.Attribute(value=mask, attr=cst.Name(value=kind)), args=[]) if (
            kind in _CONVERSIONS
        ):
            made = operation_of(site, value_of_name(site, mask))
            compares = made is not None and made.name in _COMPARISONS
            return compares or _is_converted_comparison(site, mask)
    return False


def value_of_name(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the only value of a local name that is not changed in place; other nodes as given."""
    value, function = only_value(site.document, node), site.document.function(node)
    if value is None or function is None or dotted_name(node) in names_mutated(function.body):
        return node
    return value


def has_same_value(site: Site, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Return whether expressions have the same source, and their names only one value in it."""
    bare = [_without_parentheses(part) for part in (one, other)]
    known, function = find_definitions(site.document, one), site.document.function(one)
    if known is None or function is None or not bare[0].deep_equals(bare[1]):
        return False
    attributes = {name for name in names_bound(function.body) if "." in name}
    if names_read(one) & {*names_mutated(function.body), *attributes}:
        return False
    names = [[node for node in walk(part) if isinstance(node, cst.Name)] for part in (one, other)]
    values = [[known.reaching.get(node, frozenset()) for node in part] for part in names]
    return values[0] == values[1] and all(len(found) < 2 for found in values[0])


def without_new_dims(mask: cst.BaseExpression) -> cst.BaseExpression:
    """Return `m` for `m[:, None]`: the mask without dimensions of size one that were added."""
    new = m.SubscriptElement(m.Index(m.Name("None") | m.Ellipsis()) | m.Slice(None, None))
    if isinstance(mask, cst.Subscript) and all(m.matches(part, new) for part in mask.slice):
        mask = mask.value
    return _without_parentheses(mask)


def _without_parentheses(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a node without parentheses; the node itself if it has none."""
    return node.with_changes(lpar=(), rpar=()) if node.lpar else node
