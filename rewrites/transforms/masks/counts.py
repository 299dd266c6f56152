"""Number of selected elements, where Python asks for it."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.transforms.masks.operators import is_number
from fullgraph.rewrites.transforms.masks.sinks import CountSink

_ORDER = (
    cst.Equal
    | cst.NotEqual
    | cst.LessThan
    | cst.LessThanEqual
    | cst.GreaterThan
    | cst.GreaterThanEqual
)


def find_count(site: Site, node: cst.BaseExpression, selected: cst.BaseExpression) -> CountSink:
    """Return `node`, which counts selected elements, as a CountSink if a tensor can replace it.

    It can in `total / len(x[m])` and in conditions such as `if len(x[m]) > 0`, whose branch another
    rule rewrites. `selected` is `x[m]`. Raises NotApplicable if Python needs a number.
    """
    parent = site.document.parent(node)
    match parent:
        case cst.BinaryOperation():
            other = parent.right if parent.left is node else parent.left
            if site.is_tensor(other):
                return CountSink(node)
        case cst.Comparison(comparisons=[one]) if parent.left is node and is_condition(
            site, parent
        ):
            if isinstance(one.operator, _ORDER) and is_number(site, one.comparator):
                return CountSink(node)
        case cst.Arg(keyword=None):
            if (found := _at_least(site, parent)) is not None:
                return found
    if is_condition(site, node):
        return CountSink(node)
    raise NotApplicable(f"`{site.document.code(node)}` is needed as a Python number")


def is_condition(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether only the truth value of an expression is used."""
    parent = site.document.parent(node)
    match parent:
        case cst.If() | cst.IfExp():
            return parent.test is node
        case cst.UnaryOperation(operator=cst.Not()) | cst.BooleanOperation():
            return is_condition(site, parent)
    return False


def _at_least(site: Site, arg: cst.Arg) -> CountSink | None:
    """Return the CountSink for `max(n, 1)` in `total / max(n, 1)`, if `total` is a tensor.

    `arg` is the argument `n`, a number of selected elements. None for other code.
    """
    call = site.document.parent(arg)
    if not isinstance(call, cst.Call) or site.callee_name(call) != "max" or len(call.args) != 2:
        return None
    other = next(one.value for one in call.args if one is not arg)
    outer = site.document.parent(call)
    if not isinstance(outer, cst.BinaryOperation) or not is_number(site, other):
        return None
    beside = outer.right if outer.left is call else outer.left
    return CountSink(call, other) if site.is_tensor(beside) else None
