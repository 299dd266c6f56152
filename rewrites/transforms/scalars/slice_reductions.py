"""Reductions over slices whose bounds are tensors, `x[a:b].mean(0)`, rewritten with a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst
import torch

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.masks.operators import (
    NEUTRAL,
    Operation,
    integer_literal,
    integer_literals,
    parse_operation,
)
from fullgraph.rewrites.transforms.scalars.scalar import SIZE, Number
from fullgraph.rewrites.transforms.scalars.slice_masks import (
    Cut,
    cuts_of,
    dimensions_before,
    mask_of,
    without_bounds,
)
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

_REDUCTIONS = ("sum", "mean", "prod", "max", "amax", "min", "amin", "logsumexp")
_SELECTS = ("max", "amax", "min", "amin")
_SELECTED = "the slice is not empty, for otherwise the original raises"


def mask_slice_reduction(
    uses: UseEdits,
    subscript: cst.Subscript,
    is_tensor: Callable[[cst.BaseExpression], bool],
    number: Number,
) -> None:
    """Rewrite `x[:n].sum(0)` to a sum over `x` in which elements from index n on are zero.

    `is_tensor` says of a bound whether it is, or becomes, a 0-d tensor such as `number`. Where a
    slice has two bounds, lines before the statement name the positions in it. Raises NotApplicable
    if the use is no reduction of the dimensions that are cut.
    """
    call = uses.document.parents.get(uses.document.parent(subscript))
    made = parse_operation(uses.site, call) if isinstance(call, cst.Call) else None
    seen = uses.observed(subscript)
    if made is None or made.tensor is not subscript or made.name not in _REDUCTIONS:
        raise NotApplicable(SIZE)
    if seen is None or len(seen.dims) != 1 or number.dtype not in (torch.int64, torch.int32):
        raise NotApplicable(SIZE)
    cuts, count = cuts_of(uses, subscript, is_tensor), next(iter(seen.dims))
    places = {dimensions_before(subscript, cut.piece) % count for cut in cuts}
    over = _reduced_dimensions(uses, made, count)
    if not places <= over:
        raise NotApplicable(SIZE)
    mask, whole = (
        mask_of(uses, subscript, cuts),
        without_bounds(subscript, [c.piece for c in cuts]),
    )
    where = uses.document.imported_name("torch.where") or "torch.where"
    neutral = _neutral(uses, subscript, made.name)
    kept = build_expression(f"{where}({{mask}}, {{x}}, {neutral})", mask=mask, x=whole)
    new: cst.BaseExpression = _call_on(made, kept, "sum" if made.name == "mean" else made.name)
    if made.name == "mean":
        count_text = "{n}" + "".join(f" * {{x}}.shape[{dim}]" for dim in sorted(over - places))
        text = f"{{total}} / ({count_text})" if over - places else "{total} / {n}"
        number_of = _count(subscript, cuts, mask)
        new = build_expression(text, total=new, n=number_of, x=whole)
    uses.imports.append("torch")
    uses.write(made.call, new)


def _reduced_dimensions(uses: UseEdits, made: Operation, count: int) -> set[int]:
    """Return the dimensions of the slice, of `count`, that a call reduces. Raises NotApplicable."""
    given = made.argument("dim", 0) or made.argument("axis", 99)
    dims = integer_literals(given)
    if dims is None and made.options:
        raise NotApplicable(SIZE)
    if dims is not None and made.name in ("max", "min"):
        outer = uses.document.parent(made.call)
        elements = outer.slice if isinstance(outer, cst.Subscript) else ()
        first = elements[0].slice if len(elements) == 1 else None
        is_value = isinstance(first, cst.Index) and integer_literal(first.value) == 0
        if not is_value and not (isinstance(outer, cst.Attribute) and outer.attr.value == "values"):
            raise NotApplicable("its indices are those among the selected elements")
    return {dim % count for dim in dims} if dims is not None else set(range(count))


def _neutral(uses: UseEdits, subscript: cst.Subscript, name: str) -> str:
    """Return the number that a reduction does not see. Raises NotApplicable."""
    neutral = NEUTRAL[name]
    if name in _SELECTS:
        uses.assume(_SELECTED)
    if "inf" not in neutral:
        return neutral
    if not all(dtype.startswith(("float", "bfloat")) for dtype in uses.dtypes(subscript.value)):
        raise NotApplicable(SIZE)
    return f'float("{neutral}")'


def _call_on(made: Operation, tensor: cst.BaseExpression, name: str) -> cst.Call:
    """Return the call of the reduction `name`, with the same options, on another tensor."""
    func = made.call.func
    if made.method:
        new = cst.Attribute(value=tensor, attr=cst.Name(name))
        return made.call.with_changes(func=new)
    if isinstance(func, cst.Attribute):
        func = func.with_changes(attr=cst.Name(name))
    elif name != made.name:
        raise NotApplicable(SIZE)
    first, *others = made.call.args
    return made.call.with_changes(func=func, args=[first.with_changes(value=tensor), *others])


def _count(
    subscript: cst.Subscript, cuts: Sequence[Cut], mask: cst.BaseExpression
) -> cst.BaseExpression:
    """Return how many elements a mean is over."""
    if isinstance(mask, cst.Name):
        return build_expression("{mask}.sum()", mask=mask)
    (cut, *others) = cuts
    if others or not cut.is_prefix or cut.piece.upper is None:
        return build_expression("({mask}).sum()", mask=mask)
    axis = next(i for i, one in enumerate(subscript.slice) if one.slice is cut.piece)
    return build_expression(
        f"{{n}}.clamp(max={{x}}.shape[{axis}])", n=cut.piece.upper, x=subscript.value
    )
