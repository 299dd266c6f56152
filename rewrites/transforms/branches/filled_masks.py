"""Assignments of one value to selected elements, `x[m] = v`, where `v` becomes a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.rewrites.analysis import Site, infer
from fullgraph.rewrites.source import build_expression


def fill_selected(site: Site, node: cst.Assign, value: cst.BaseExpression) -> cst.Assign | cst.Expr:
    """Return the assignment `x[m] = v` with the new value `value`.

    That is `x.masked_fill_(m, value)` where a 0-d tensor of another dtype takes the place of a
    number: on a GPU `x[m] = …` does not convert it.
    """
    match node.targets[0].target:
        case cst.Subscript(
            value=base, slice=[cst.SubscriptElement(slice=cst.Index(value=mask))]
        ) if _converts(site, base, mask, node.value):
            code = "{x}.masked_fill_({m}, {v})"
            return cst.Expr(build_expression(code, x=base, m=mask, v=value))
    return node.with_changes(value=value)


def _converts(
    site: Site, base: cst.BaseExpression, mask: cst.BaseExpression, value: cst.BaseExpression
) -> bool:
    """Return whether `value` is 0-d, may have another dtype than `base`, and `mask` its shape."""
    whole, selected = infer(site, base), infer(site, mask)
    if whole is None or selected is None or not whole.shapes or selected.shapes != whole.shapes:
        return False
    facts = [infer(site, one) for one in _operands(value)]
    if any(seen is None or not (seen.is_number or seen.dims == {0}) for seen in facts):
        return False
    tensors = [tensor for seen in facts if seen is not None for tensor in seen.tensors]
    same = all(tensor.dtype in whole.dtypes for tensor in tensors if tensor.is_float)
    return bool(tensors) and (infer(site, value) is None or not same)


def _operands(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the operands of arithmetic: `a`, `b` and `c` of `(a + b) * -c`."""
    match node:
        case cst.BinaryOperation():
            yield from _operands(node.left)
            yield from _operands(node.right)
        case cst.UnaryOperation():
            yield from _operands(node.expression)
        case _:
            yield node
