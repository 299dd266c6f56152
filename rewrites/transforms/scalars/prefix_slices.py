"""Reductions over a prefix slice `x[:n]`, rewritten as masked reductions over `x`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import build_expression, replace_nodes
from fullgraph.rewrites.transforms.masks.operators import integer_literals, parse_operation
from fullgraph.rewrites.transforms.scalars.scalar import SIZE, Number
from fullgraph.rewrites.transforms.scalars.signs import sign_of
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

_NOT_NEGATIVE = "the length is not negative, for then it would count from the end"


def mask_prefix_reduction(
    uses: UseEdits, subscript: cst.Subscript, piece: cst.Slice, number: Number
) -> None:
    """Rewrite `x[:n].sum(0)` to a sum over `x` in which elements from index n on are zero.

    `subscript` is `x[:n]`, and `piece` is `:n`. Raises NotApplicable if the use is not a sum or
    mean.
    """
    parent = uses.document.parent(subscript)
    call = uses.document.parents.get(parent)
    made = parse_operation(uses.site, call) if isinstance(call, cst.Call) else None
    seen = uses.observed(subscript)
    if made is None or made.tensor is not subscript or seen is None or len(seen.dims) != 1:
        raise NotApplicable(SIZE)
    length, axis = piece.upper, [element.slice for element in subscript.slice].index(piece)
    plain = (cst.Slice, cst.Integer, cst.Name)
    before = [one.slice for one in subscript.slice[:axis]]
    bare = [one.value if isinstance(one, cst.Index) else one for one in before]
    if not all(isinstance(one, plain) for one in bare) or not made.method or length is None:
        raise NotApplicable(SIZE)
    if made.name not in ("sum", "mean") or number.dtype not in (torch.int64, torch.int32):
        raise NotApplicable(SIZE)
    count = next(iter(seen.dims))
    place = dimensions_before(subscript, piece) % count
    dims = integer_literals(made.argument("dim", 0) or made.argument("axis", 99))
    over = [dim % count for dim in dims] if dims is not None else list(range(count))
    options = list(made.options)
    if place not in over or (dims is None and options) or (made.name == "mean" and len(over) > 1):
        raise NotApplicable(SIZE)
    rest = replace_nodes(subscript, {piece: cst.Slice(lower=None, upper=None)})
    full = subscript.value if len(rest.slice) == 1 else rest
    where = uses.document.imported_name("torch.where") or "torch.where"
    mask = positions_in(piece, subscript.value, axis, count - place - 1)
    kept = build_expression(f"{where}({{mask}}, {{full}}, 0)", full=full, mask=mask)
    new: cst.BaseExpression = made.call.with_changes(
        func=made.call.func.with_changes(value=kept, attr=cst.Name("sum"))
    )
    if made.name == "mean":
        least = f"{{n}}.clamp(max={{x}}.shape[{axis}])"
        new = build_expression(f"{{total}} / {least}", total=new, n=length, x=subscript.value)
    if not sign_of(uses.site, length):
        uses.assume(_NOT_NEGATIVE)
    uses.imports.append("torch")
    uses.write(made.call, new)


def positions_in(
    piece: cst.Slice, tensor: cst.BaseExpression, axis: int, behind: int
) -> cst.BaseExpression:
    """Return the mask of the positions in a slice, with `behind` more dimensions of size one."""
    positions = build_expression(
        f"torch.arange({{x}}.shape[{axis}], device={{x}}.device)", x=tensor
    )
    tests = []
    if piece.lower is not None and not m.matches(piece.lower, m.Integer("0")):
        tests.append(build_expression("{p} >= {n}", p=positions, n=piece.lower))
    if piece.upper is not None:
        tests.append(build_expression("{p} < {n}", p=positions, n=piece.upper))
    mask = join_masks(tests)
    return build_expression("({mask})[:" + ", None" * behind + "]", mask=mask) if behind else mask


def join_masks(masks: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    """Return the mask where all of these hold."""
    first, *others = masks
    for other in others:
        first = build_expression("({a}) & ({b})", a=first, b=other)
    return first


def dimensions_before(subscript: cst.Subscript, node: cst.CSTNode) -> int:
    """Return the number of result dimensions before the one that `node` indexes.

    Returns -1 if `node` is the last index and comes after an ellipsis. Raises NotApplicable if it
    comes after an ellipsis and is not the last index.
    """
    count = 0
    for element in subscript.slice:
        if element.slice is node:
            return count
        if not isinstance(element.slice, cst.Index):
            count += 1
        elif element.slice.value is node:
            return count
        elif m.matches(element.slice.value, m.Name("None")):
            count += 1
        elif m.matches(element.slice.value, m.Ellipsis()):
            if element is not subscript.slice[-2]:
                raise NotApplicable("it stands behind an ellipsis")
            return -1
    return count
