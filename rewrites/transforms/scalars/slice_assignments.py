"""Assignments to slices whose bounds are tensors, `x[i, n:] = 0`, rewritten with a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.scalar import SIZE
from fullgraph.rewrites.transforms.scalars.slice_masks import (
    Cut,
    cuts_of,
    join_masks,
    mask_of,
    without_bounds,
)
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits


def mask_slice_assignment(
    uses: UseEdits,
    subscript: cst.Subscript,
    is_tensor: Callable[[cst.BaseExpression], bool],
) -> None:
    """Rewrite `x[i, n:] = 0` to `x[i].masked_fill_(torch.arange(x.shape[1]) >= n, 0)`.

    `is_tensor` says of a bound whether it is, or becomes, a 0-d tensor. What is assigned must be
    one number, or a slice with the same bounds, as in `x[i, :n] = y[i, :n]`. Raises NotApplicable.
    """
    target = uses.document.parent(subscript)
    assign = uses.document.parents.get(target)
    if not isinstance(target, cst.AssignTarget) or not isinstance(assign, cst.Assign):
        raise NotApplicable(SIZE)
    if len(assign.targets) != 1:
        raise NotApplicable("several targets are assigned at once")
    cuts = cuts_of(uses, subscript, is_tensor)
    has_one_bound = all(cut.is_prefix or cut.piece.upper is None for cut in cuts)
    if has_one_bound:
        mask = join_masks([cut.mask() for cut in cuts])
    else:
        mask = mask_of(uses, subscript, cuts)
    base = without_bounds(subscript, [cut.piece for cut in cuts])
    seen = uses.observed(assign.value)
    is_scalar = seen is not None and seen.is_tensor and seen.shapes == {()}
    if is_scalar or uses.kind(assign.value) is not None:
        plain = isinstance(assign.value, cst.BaseNumber)
        value = uses.document.code(assign.value) if plain else assign.value
        new = build_expression("{x}.masked_fill_({mask}, {value})", x=base, mask=mask, value=value)
    else:
        source = _same_slice(assign.value, cuts)
        where = uses.document.imported_name("torch.where") or "torch.where"
        new = build_expression(
            f"{{x}}.copy_({where}({{mask}}, {{y}}, {{x}}))", x=base, mask=mask, y=source
        )
    uses.imports.append("torch")
    uses.others[assign] = cst.Expr(value=new)


def _same_slice(value: cst.BaseExpression, cuts: Sequence[Cut]) -> cst.BaseExpression:
    """Return `y[i]` for the value `y[i, :n]`, which has the same bounds as the target.

    Raises NotApplicable for other values.
    """
    elements = value.slice if isinstance(value, cst.Subscript) else ()
    pieces = [cut.piece for cut in cuts]
    same = [one.slice for one in elements if any(one.slice.deep_equals(other) for other in pieces)]
    if not isinstance(value, cst.Subscript) or len(same) != len(pieces):
        raise NotApplicable(
            "what is assigned has a size that depends on it: write at indices of fixed number, as "
            "`index_copy_` does"
        )
    return without_bounds(value, same)
