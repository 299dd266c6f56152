"""Assignments to slices whose bounds are tensors, `x[i, n:] = 0`, rewritten with a mask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.prefix_slices import join_masks, positions_in
from fullgraph.rewrites.transforms.scalars.scalar import SIZE
from fullgraph.rewrites.transforms.scalars.signs import sign_of
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

NOT_NEGATIVE = "the bounds of the slice are not negative, for then they would count from the end"
_FULL = cst.Slice(lower=None, upper=None)

Pieces = Mapping[cst.BaseSlice, cst.BaseExpression]
"""Slices with a bound that is a tensor, each with the mask of the positions in it."""


def mask_slice_assignment(
    uses: UseEdits,
    subscript: cst.Subscript,
    is_tensor: Callable[[cst.BaseExpression], bool],
) -> None:
    """Rewrite `x[i, n:] = 0` to `x[i].masked_fill_(torch.arange(x.shape[1]) >= n, 0)`.

    `is_tensor` says of a bound whether it is, or becomes, a 0-d tensor. What is assigned must be a
    number, or a slice with the same bounds, as in `x[i, :n] = y[i, :n]`. Raises NotApplicable.
    """
    target = uses.document.parent(subscript)
    assign = uses.document.parents.get(target)
    if not isinstance(target, cst.AssignTarget) or not isinstance(assign, cst.Assign):
        raise NotApplicable(SIZE)
    if len(assign.targets) != 1:
        raise NotApplicable("several targets are assigned at once")
    masks = _masks_of(uses, subscript, is_tensor)
    mask = join_masks(list(masks.values()))
    base = _without_bounds(subscript, masks)
    if uses.kind(assign.value) is not None:
        plain = isinstance(assign.value, cst.BaseNumber)
        value = uses.document.code(assign.value) if plain else assign.value
        new = build_expression("{x}.masked_fill_({mask}, {value})", x=base, mask=mask, value=value)
    else:
        source = _same_slice(assign.value, masks)
        where = uses.document.imported_name("torch.where") or "torch.where"
        new = build_expression(
            f"{{x}}.copy_({where}({{mask}}, {{y}}, {{x}}))", x=base, mask=mask, y=source
        )
    uses.imports.append("torch")
    uses.others[assign] = cst.Expr(value=new)


def _masks_of(
    uses: UseEdits, subscript: cst.Subscript, is_tensor: Callable[[cst.BaseExpression], bool]
) -> Pieces:
    """Return the mask of each slice with a tensor bound, shaped to broadcast over the result."""
    seen = uses.observed(subscript.value)
    elements = [element.slice for element in subscript.slice]
    dots = [i for i, one in enumerate(elements) if _is_ellipsis(one)]
    if seen is None or len(seen.dims) != 1 or len(dots) > 1:
        raise NotApplicable("the number of its dimensions is not known")
    for one in elements:
        if isinstance(one, cst.Index) and not _is_ellipsis(one) and uses.kind(one.value) is None:
            raise NotApplicable("it selects together with other tensors")
    count = next(iter(seen.dims))
    found: dict[cst.BaseSlice, cst.BaseExpression] = {}
    for index, piece in enumerate(elements):
        if not isinstance(piece, cst.Slice):
            continue
        bounds = [bound for bound in (piece.lower, piece.upper) if bound is not None]
        if not any(map(is_tensor, bounds)):
            continue
        if piece.step is not None or not all(is_tensor(b) or uses.kind(b) is int for b in bounds):
            raise NotApplicable(SIZE)
        after_dots = bool(dots) and dots[0] < index
        axis = index - len(elements) if after_dots else index
        behind = -axis - 1 if after_dots else count - axis - 1
        numbers = [one for one in elements[index + 1 :] if isinstance(one, cst.Index)]
        behind -= sum(not _is_ellipsis(one) for one in numbers)
        found[piece] = positions_in(piece, subscript.value, axis, behind)
        if not all(isinstance(bound, cst.Integer) or sign_of(uses.site, bound) for bound in bounds):
            uses.assume(NOT_NEGATIVE)
    if not found:
        raise NotApplicable(SIZE)
    return found


def _without_bounds(
    subscript: cst.Subscript, pieces: Collection[cst.BaseSlice]
) -> cst.BaseExpression:
    """Return `x[i]` for `x[i, n:]`, and `x` for `x[n:]`: a view of all positions in `pieces`."""
    whole = [_FULL if one.slice in pieces else one.slice for one in subscript.slice]
    while whole and (_is_ellipsis(whole[-1]) or _is_full(whole[-1])):
        whole.pop()
    if all(_is_ellipsis(one) or _is_full(one) for one in whole):
        return subscript.value
    return subscript.with_changes(slice=[cst.SubscriptElement(one) for one in whole])


def _same_slice(value: cst.BaseExpression, pieces: Pieces) -> cst.BaseExpression:
    """Return `y[i]` for the value `y[i, :n]`, which has the same bounds as the target.

    Raises NotApplicable for other values.
    """
    elements = value.slice if isinstance(value, cst.Subscript) else ()
    same = [one.slice for one in elements if any(one.slice.deep_equals(other) for other in pieces)]
    if not isinstance(value, cst.Subscript) or len(same) != len(pieces):
        raise NotApplicable(
            "what is assigned has a size that depends on it: write at indices of fixed number, as "
            "`index_copy_` does"
        )
    return _without_bounds(value, same)


def _is_full(node: cst.BaseSlice) -> bool:
    return isinstance(node, cst.Slice) and node.lower is None and node.upper is None


def _is_ellipsis(node: cst.BaseSlice) -> bool:
    return isinstance(node, cst.Index) and isinstance(node.value, cst.Ellipsis)
