"""Indices that are in range whatever the data: `i % len(table)`."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.source import dotted_name, integer_literal
from fullgraph.rewrites.transforms.masks.operators import parse_operation
from fullgraph.rewrites.transforms.masks.selected import SelectedElements


def is_in_range(
    flow: SelectedElements, index: cst.BaseExpression, table: cst.BaseExpression
) -> bool:
    """Return whether an index into `table` is in range, for any values that it is computed from.

    So are `i % len(table)` and `i.clamp(0, len(table) - 1)`, also through a name.
    """
    if isinstance(index, cst.Name) and flow.definitions is not None:
        found = flow.definitions.reaching.get(index, frozenset())
        values = [flow.bound.get(binding) for binding in found]
        return bool(values) and all(
            value is not None
            and not isinstance(value, cst.Name)
            and is_in_range(flow, value, table)
            for value in values
        )
    match index:
        case cst.BinaryOperation(operator=cst.Modulo()):
            return _is_length(flow, index.right, table)
        case cst.Call():
            made = parse_operation(flow.site, index)
            if made is None or made.name not in ("clamp", "clip", "remainder"):
                return False
            if made.name == "remainder":
                return _is_length(flow, made.operands[-1], table)
            least, most = integer_literal(made.argument("min", 0)), made.argument("max", 1)
            match most:
                case cst.BinaryOperation(operator=cst.Subtract(), left=length, right=one):
                    last = integer_literal(one) == 1 and _is_length(flow, length, table)
                    return last and least is not None and least >= 0
    return False


def _is_length(flow: SelectedElements, node: cst.BaseExpression, table: cst.BaseExpression) -> bool:
    """Return whether `node` is the length of `table`, which is the same tensor at both places."""
    match node:
        case cst.Subscript(
            value=cst.Attribute(value=measured, attr=cst.Name("shape")),
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("0")))],
        ):
            pass
        case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=measured)]):
            pass
        case cst.Call(
            func=cst.Attribute(value=measured, attr=cst.Name("size")),
            args=[cst.Arg(value=cst.Integer("0"))],
        ):
            pass
        case _:
            return False
    if not measured.deep_equals(table) or not dotted_name(table):
        return False
    if not isinstance(table, cst.Name) or flow.definitions is None:
        return dotted_name(table).startswith("self.")
    reaching = flow.definitions.reaching
    return reaching.get(measured) == reaching.get(table)  # type: ignore[call-overload]
