"""Numbers as indices and slice bounds, replaced by tensors where no size depends on them."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.rewrites.analysis import (
    NotApplicable,
    buffer_value,
    find_all,
    is_plain_attribute,
    names_mutated,
    only_value,
)
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.int_indices import convert_index, deciding_branch
from fullgraph.rewrites.transforms.scalars.positions import equal_slices
from fullgraph.rewrites.transforms.scalars.scalar import SIZE, Number
from fullgraph.rewrites.transforms.scalars.slice_assignments import mask_slice_assignment
from fullgraph.rewrites.transforms.scalars.slice_masks import axis_of, dimensions_before
from fullgraph.rewrites.transforms.scalars.slice_reductions import mask_slice_reduction
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

_FROM_ZERO = m.Call(
    func=m.Attribute(attr=m.Name(m.MatchRegex("clamp|clamp_min|clip"))) | m.Name("max"),
    args=[m.ZeroOrMore(), m.Arg(m.Integer("0")), m.ZeroOrMore()],
)
INSIDE = "the slice lies inside the tensor, for otherwise it is cut short"


def rewrite_index(uses: UseEdits, node: cst.BaseExpression, number: Number) -> None:
    """Rewrite `x[n]` to `x[n[None]].squeeze(0)`, and `x[n] = y` to `x[n[None]] = y`.

    `node` is `n`. Indexing by a 0-d tensor would read its value as a number. Where `n` may be an
    int in another run, a line before the statement converts it. Raises NotApplicable.
    """
    uses.selects = True
    subscript = _find_subscript(uses, node)
    if (decides := deciding_branch(uses, node)) is not None:
        code = uses.document.code(decides)
        raise NotApplicable(f"`{code}` decides whether it is read, and is a branch of its own")
    before = dimensions_before(subscript, node)
    is_converted = convert_index(uses, node, subscript)
    if not is_converted and is_plain_attribute(uses.site, subscript.value):
        index, table = uses.document.code(node), uses.document.code(subscript.value)
        uses.assume(f"`{index}` is on the device of `{table}`")
    number = uses.cast(node, number, _index_dtype(number))
    uses.append_call(node, number, "[None]")
    parent = uses.document.parent(subscript)
    if isinstance(parent, cst.AssignTarget | cst.AugAssign):
        value = _assigned_value(uses, parent)
        if len(subscript.slice) > 1 and (value is None or uses.kind(value) is None):
            raise NotApplicable("what is assigned would need another dimension")
        _convert_assigned(uses, subscript)
        return
    if isinstance(parent, cst.Element) and _is_target(uses, parent):
        raise NotApplicable("it is assigned together with others")
    if isinstance(parent, cst.Attribute) and _is_in_place(parent):
        raise NotApplicable("what it selects is changed in place")
    function = uses.document.function(subscript)
    changed = names_mutated(function.body) if function is not None else ()
    for one in parent.targets if isinstance(parent, cst.Assign) else ():
        if isinstance(one.target, cst.Name) and one.target.value in changed:
            raise NotApplicable("what it selects is changed in place")
    is_base = isinstance(parent, cst.Subscript) and parent.value is subscript
    if is_base and not before and uses.document.code(parent).endswith("[None]"):
        uses.write(cst.ensure_type(parent, cst.Subscript), subscript)  # `x[n][None]`: `x[n[None]]`
        return
    uses.append_call(subscript, number, f".squeeze({before})")


def _assigned_value(
    uses: UseEdits, parent: cst.AssignTarget | cst.AugAssign
) -> cst.BaseExpression | None:
    """Return `value` of `x[n] = value` or `x[n] += value`; None for other statements.

    `parent` is the target `x[n]`, or the whole statement with `+=`.
    """
    statement = parent if isinstance(parent, cst.AugAssign) else uses.document.parent(parent)
    return statement.value if isinstance(statement, cst.Assign | cst.AugAssign) else None


def _is_target(uses: UseEdits, node: cst.CSTNode) -> bool:
    """Return whether a node is part of the target of an assignment."""
    packed = cst.Element | cst.Tuple | cst.List
    around = next(one for one in uses.document.ancestors(node) if not isinstance(one, packed))
    return isinstance(around, cst.AssignTarget)


def _convert_assigned(uses: UseEdits, subscript: cst.Subscript) -> None:
    """Convert a tensor that is assigned to `x[n]` to the dtype of `x`, as the int `n` did."""
    parent = uses.document.parent(subscript)
    value = _assigned_value(uses, parent) if isinstance(parent, cst.AssignTarget) else None
    if value is not None and (uses.is_tensor(value) or value in uses.tensors):
        uses.convert_assigned(subscript, value)


def has_tensor_index(uses: UseEdits, subscript: cst.Subscript) -> bool:
    """Return whether a tensor is among the indices of a subscript, or becomes one."""
    for element in subscript.slice:
        if isinstance(element.slice, cst.Index):
            index = element.slice.value
            plain = m.matches(index, m.Name("None") | m.Ellipsis()) or uses.kind(index) is not None
            if not plain or index in uses.tensors:
                return True
        elif element.slice in uses.others:
            return True
    return False


def rewrite_slice_bounds(uses: UseEdits, node: cst.BaseExpression, number: Number) -> None:
    """Rewrite `x[n : n + k]` to `x[n + torch.arange(k)]`.

    `node` is a bound of the slice. Raises NotApplicable if the length depends on the number.
    """
    uses.selects = True
    piece = uses.document.parent(node)
    assert isinstance(piece, cst.Slice)
    if piece in uses.others:
        return
    subscript = _find_subscript(uses, piece)
    lower, length = piece.lower, _slice_length(piece)
    target = _assigned_slice(uses, subscript)

    def is_tensor(bound: cst.BaseExpression) -> bool:
        return bound in uses.tensors or bound.deep_equals(node) or _is_0d(uses, bound)

    if target is not None and (length is None or length in uses.tensors):
        mask_slice_assignment(uses, target, is_tensor)
        return
    if lower is None or length is None or length in uses.tensors or uses.kind(length) is not int:
        mask_slice_reduction(uses, subscript, is_tensor, number)
        return
    if piece.step is not None:
        raise NotApplicable(SIZE)
    if number.dtype not in (torch.int64, torch.int32):
        raise NotApplicable(SIZE)
    new = build_expression(
        "{start} + torch.arange({length}, device={x}.device)",
        start=lower,
        length=_length_inside(uses, subscript, piece, length),
        x=subscript.value,
    )
    uses.others[piece] = cst.Index(value=new)
    uses.positions[piece] = subscript
    _convert_assigned(uses, subscript)
    uses.imports.append("torch")
    uses.assume(INSIDE)


def _length_inside(
    uses: UseEdits, subscript: cst.Subscript, piece: cst.Slice, length: cst.BaseExpression
) -> cst.BaseExpression:
    """Return `min(k, x.shape[0])`, what `x[n : n + k]` has if `n` is 0 in a shorter `x`; or `k`.

    An `n` that is never less than 0 by a clamp is 0 there. A buffer is not shorter.
    """
    start = only_value(uses.document, piece.lower) if piece.lower is not None else None
    if (
        start is None
        or not find_all(start, _FROM_ZERO)
        or find_all(subscript, m.Index(m.Name("None")))
        or buffer_value(uses.site, subscript.value) is not None
        or isinstance(uses.document.parent(subscript), cst.AssignTarget)
        or len(equal_slices(uses.document, piece)) > 1
    ):
        return length
    size = f"{{x}}.shape[{axis_of(subscript, piece)}]"
    return build_expression(f"min({{k}}, {size})", k=length, x=subscript.value)


def _assigned_slice(uses: UseEdits, subscript: cst.Subscript) -> cst.Subscript | None:
    """Return `x[:n]` of `x[:n] = y[:n]`, where `subscript` is one of the two; None elsewhere."""
    parent = uses.document.parent(subscript)
    if isinstance(parent, cst.AssignTarget):
        return subscript
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target = parent.targets[0].target
        return target if isinstance(target, cst.Subscript) else None
    return None


def _is_0d(uses: UseEdits, node: cst.BaseExpression) -> bool:
    """Return whether an expression was a 0-d tensor each time."""
    seen = uses.observed(node)
    return seen is not None and seen.is_tensor and seen.shapes == {()}


def _find_subscript(uses: UseEdits, node: cst.CSTNode) -> cst.Subscript:
    """Return the subscript of a tensor that has `node` in its index.

    Raises NotApplicable if another object than a tensor is indexed, or if other indices may be
    tensors.
    """
    around = uses.document.ancestors(node)
    subscript = next((one for one in around if isinstance(one, cst.Subscript)), None)
    if subscript is None or not uses.is_tensor(subscript.value):
        raise NotApplicable("an index of what is no tensor depends on it")
    for element in subscript.slice:
        inside = element.slice.value if isinstance(element.slice, cst.Index) else None
        if inside is None or inside is node or uses.kind(inside) is not None:
            continue
        if not m.matches(inside, m.Name("None") | m.Ellipsis()):
            raise NotApplicable("it selects together with other tensors")
    return subscript


def _slice_length(piece: cst.Slice) -> cst.BaseExpression | None:
    """Return `k` of the slice `n : n + k`; None for other slices."""
    match piece.lower, piece.upper:
        case cst.Name() as lower, cst.BinaryOperation(operator=cst.Add()) as upper:
            if upper.left.deep_equals(lower):
                return upper.right
            if upper.right.deep_equals(lower):
                return upper.left
    return None


def _index_dtype(number: Number) -> torch.dtype:
    """Return the dtype for indexing with the number: its own if that is int32, else int64.

    Raises NotApplicable if the number is not an int.
    """
    if number.kind is not int:
        raise NotApplicable("it is no whole number")
    return number.dtype if number.dtype in (torch.int32, torch.int64) else torch.int64


def _is_in_place(attribute: cst.Attribute) -> bool:
    """Whether an attribute is an in-place method such as `add_`."""
    name = attribute.attr.value
    return name.endswith("_") and not name.endswith("__")
