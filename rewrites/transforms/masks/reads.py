"""Reads through a boolean mask: `x[m]`, `x[:, m]`, `x.masked_select(m)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import Site, find_definitions, walk
from fullgraph.rewrites.source import Document, build_expression, dotted_name
from fullgraph.rewrites.transforms.masks.nonzero import flattening_around, parse_nonzero

_MASKS = ("isnan", "isfinite", "isinf", "logical_and", "logical_or", "logical_not", "bool")
"""Calls whose result can only be a mask."""
_LATER = cst.IfExp | cst.BooleanOperation | cst.Lambda | cst.CompFor
"""Nodes that may evaluate a part of themselves later, repeatedly or never."""


@dataclass(frozen=True, eq=False)
class Read:
    """Masked read or assignment `base[mask]`."""

    node: cst.BaseExpression
    base: cst.BaseExpression
    mask: cst.BaseExpression
    axis: int = 0
    """The first dimension of `base` that the mask covers."""
    dims: int = 1
    """How many dimensions the mask has."""
    ndim: int = 1
    """How many dimensions `base` has."""
    dtype: str = "float32"
    """Dtype of `base` without "torch."."""
    known: bool = True
    """Whether shapes and types were observed; else the mask is assumed to be shaped like `base`."""
    plain: bool = True
    """Whether `base` is in the source; False for `x[0, m]`, where it is a new `x[0, :]`."""
    indices: cst.Call | None = None
    """The call `m.nonzero()` whose indices are used; None if the mask itself is used."""

    @property
    def trailing_dims(self) -> int:
        """Number of dimensions of `base` after those the mask covers."""
        return self.ndim - self.axis - self.dims

    @property
    def whole(self) -> bool:
        """Return whether the mask covers all dimensions of `base`."""
        return self.dims == self.ndim

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith(("float", "bfloat", "complex"))

    def broadcast_mask(self, mask: cst.BaseExpression) -> cst.BaseExpression:
        """Return `mask` with trailing dimensions of size one, to broadcast against `base`."""
        if self.trailing_dims == 0:
            return mask
        return build_expression("{mask}[..." + ", None" * self.trailing_dims + "]", mask=mask)


def find_read(site: Site, node: cst.CSTNode) -> Read | None:
    """Return `node` as a masked read: `x[m]`, `x.masked_select(m)` or `x[torch.where(m)]`.

    The target of `x[m] = y` counts too. None for other code.
    """
    if isinstance(node, cst.Subscript):
        return _parse_subscript(site, node) or _parse_index(site, node)
    if isinstance(node, cst.Call):
        return _parse_masked_select(site, node)
    return None


def is_same_mask(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Return whether two masks have the same source, but for spaces."""
    return _code_without_spaces(one) == _code_without_spaces(other)


def is_name(mask: cst.BaseExpression) -> bool:
    """Return whether a mask is a variable, an attribute, or the negation of one."""
    if isinstance(mask, cst.UnaryOperation) and isinstance(mask.operator, cst.BitInvert):
        return is_name(mask.expression)
    return isinstance(mask, cst.Name) or (isinstance(mask, cst.Attribute) and is_name(mask.value))


def is_repeatable(site: Site, mask: cst.BaseExpression) -> bool:
    """Return whether evaluating a mask again gives the same result."""
    calls = (one for one in walk(mask) if isinstance(one, cst.Call))
    return all(dotted_name(c.func).rpartition(".")[2] in _REPEATABLE for c in calls) and (
        not any(isinstance(one, cst.NamedExpr | cst.Lambda | cst.Await) for one in walk(mask))
    )


_REPEATABLE = {*_MASKS, "eq", "ne", "lt", "le", "gt", "ge", "abs", "view", "reshape", "flatten"} | {
    "squeeze", "unsqueeze", "detach", "float", "long", "int", "sum", "any", "all", "max", "min",
    "to", "type", "size", "dim", "expand_as", "expand", "argmax", "norm", "len",
}  # fmt: skip


def can_insert_before(document: Document, place: cst.CSTNode, reads: Iterable[cst.CSTNode]) -> bool:
    """Return whether a statement about the mask may be inserted before the statement `place`.

    It may if it would run exactly as often as the `reads` of the mask in `place`: not if one of
    these is in a lambda.
    """
    if not isinstance(place, cst.SimpleStatementLine) or len(place.body) != 1:
        return False
    if isinstance(document.parent(place), cst.SimpleStatementSuite):
        return False
    inside = [node for node in reads if place in document.ancestors(node)]
    return not any(
        isinstance(outer, _LATER)
        for node in inside
        for outer in document.ancestors(node)
        if place in document.ancestors(outer)
    )


def _parse_subscript(site: Site, node: cst.Subscript) -> Read | None:
    """Return `x[m]` or `x[:, m]` as a Read; None for subscripts without or with several masks."""
    parts = [one.slice for one in node.slice]
    masks = [i for i, one in enumerate(parts) if _is_mask(site, one, node)]
    if len(masks) != 1:
        return None
    place = masks[0]
    index = parts[place]
    assert isinstance(index, cst.Index)
    mask = index.value
    seen, base = site.observed(mask), site.observed(node.value)
    if seen is None or base is None or len(seen.dims) != 1 or len(base.dims) != 1:
        plain = len(parts) == 1
        return Read(node, node.value, mask, known=False) if plain else None
    dims, ndim = next(iter(seen.dims)), next(iter(base.dims))
    dtype = next(iter(base.dtypes)) if len(base.dtypes) == 1 else "float32"
    if dims == 0 or dims > ndim:
        return None
    others = [one for i, one in enumerate(parts) if i != place]
    if any(not _is_slice_or_number(site, one) for one in others):
        return None
    taken = sum(not _is_ellipsis(one) for one in others) + dims
    axis = _axis_after(parts[:place], ndim - taken)
    if all(_is_full(one) for one in others):
        return Read(node, node.value, mask, axis, dims, ndim, dtype)
    colons = [cst.SubscriptElement(cst.Slice(lower=None, upper=None)) for _ in range(dims)]
    slices: list[cst.SubscriptElement] = []
    for i, one in enumerate(node.slice):
        slices += colons if i == place else [one.with_changes(comma=cst.MaybeSentinel.DEFAULT)]
    ints = [isinstance(one, cst.Index) and not _is_ellipsis(one) for one in parts]
    rest = cst.Subscript(node.value, _space_commas(slices))
    axis -= sum(ints[:place])
    ndim -= sum(one for i, one in enumerate(ints) if i != place)
    return Read(node, rest, mask, axis, dims, ndim, dtype, plain=False)


def _parse_index(site: Site, node: cst.Subscript) -> Read | None:
    """Return `x[i, j]` after `i, j = torch.where(m)` as a Read of `x` through `m`.

    None for other code, or if `x[…]` does not use all of these indices.
    """
    values = [one.slice.value for one in node.slice if isinstance(one.slice, cst.Index)]
    if len(values) != len(node.slice):
        return None
    origins = [_origin_of_indices(site, value) for value in values]
    call, _, _ = origins[0]
    made = parse_nonzero(site, call) if call is not None else None
    if made is None or not isinstance(call, cst.Call):
        return None
    seen, base = site.observed(made[0]), site.observed(node.value)
    if seen is None or base is None or len(seen.dims) != 1 or len(base.dims) != 1:
        return None
    dims, ndim = next(iter(seen.dims)), next(iter(base.dims))
    parts = [(index, flat) for one, index, flat in origins if one is call]
    whole = parts == [(None, False)] and made[1]
    flat = parts == [(None, True)] and dims == 1
    taken_apart = parts == [(i, True) for i in range(dims)]
    if len(parts) != len(values) or not (whole or flat or taken_apart):
        return None
    mask = made[0] if seen.dtypes == {"bool"} else build_expression("{m} != 0", m=made[0])
    return Read(node, node.value, mask, 0, dims, ndim, next(iter(base.dtypes)), indices=call)


def _origin_of_indices(
    site: Site, value: cst.BaseExpression
) -> tuple[cst.BaseExpression | None, int | None, bool]:
    """Return (call, dimension, is 1-d) for `value`, indices that a call computed from a mask.

    (`torch.where(m)`, 1, True) for `j` after `i, j = torch.where(m)`. The dimension is None if
    `value` has the indices of all dimensions, as `m.nonzero()` has, or was flattened, as
    `m.nonzero()[:, 0]` is. (None, None, False) for other expressions.
    """
    target: cst.CSTNode = value
    index = None
    if isinstance(value, cst.Name):
        known = find_definitions(site.document, value)
        bindings = known.reaching.get(value, frozenset()) if known is not None else frozenset()
        if len(bindings) != 1:
            return None, None, False
        target = next(iter(bindings))
        parent = site.document.parents.get(target)
        if isinstance(parent, cst.Element):
            group = site.document.parent(parent)
            if not isinstance(group, cst.Tuple | cst.List):
                return None, None, False
            index = list(group.elements).index(parent)
            parent = site.document.parents.get(group)
        assign = site.document.parents.get(parent) if parent is not None else None
        if not isinstance(parent, cst.AssignTarget) or not isinstance(assign, cst.Assign):
            return None, None, False
        value = assign.value
    if parse_nonzero(site, value) is not None:
        return value, index, index is not None
    match value:
        case cst.Call(func=cst.Attribute(value=inner)) | cst.Subscript(value=inner):
            pass
        case _:
            return None, None, False
    made = parse_nonzero(site, inner)
    if made is None or index is not None:
        return None, None, False
    return (
        (inner, None, True)
        if flattening_around(site, inner, made[1])[0] is value
        else (None, None, False)
    )


def _space_commas(slices: Sequence[cst.SubscriptElement]) -> list[cst.SubscriptElement]:
    """Return subscript elements with a space after each comma."""
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    *front, last = slices
    return [*(one.with_changes(comma=comma) for one in front), last]


def _axis_after(before: Sequence[cst.BaseSlice], ellipsis: int) -> int:
    return sum(ellipsis if _is_ellipsis(one) else 1 for one in before)


def _parse_masked_select(site: Site, node: cst.Call) -> Read | None:
    """Return the read of `x.masked_select(m)` or `torch.masked_select(x, m)`.

    None for other calls, and if `m` has another shape than `x`.
    """
    name = site.callee_name(node)
    args = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
    if len(args) != len(node.args):
        return None
    if name == "torch.masked_select" and len(args) == 2:
        base, mask = args
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "masked_select":
        if len(args) != 1 or name == "torch.masked_select":
            return None
        base, mask = node.func.value, args[0]
    else:
        return None
    seen, tensor = site.observed(mask), site.observed(base)
    if seen is None or tensor is None:
        return Read(node, base, mask, known=False)
    if seen.shapes != tensor.shapes or len(seen.dims) != 1:
        return None
    dims = next(iter(seen.dims))
    return Read(node, base, mask, 0, dims, dims, next(iter(tensor.dtypes)))


def _is_mask(site: Site, part: cst.BaseSlice, node: cst.Subscript) -> bool:
    """Return whether `part`, one index of the subscript `node`, is a boolean tensor.

    Decides from the source if the index was not observed.
    """
    if not isinstance(part, cst.Index) or part.star is not None:
        return False
    seen = site.observed(part.value)
    if seen is not None:
        return seen.is_tensor and seen.dtypes == {"bool"} and 0 not in seen.dims
    if node is site.node:
        return len(node.slice) == 1
    return _looks_like_mask(site, part.value)


def _looks_like_mask(site: Site, value: cst.BaseExpression) -> bool:
    """Return whether the source alone shows a mask: `x > 0`, `~m`, `a & b`, `x.isnan()`.

    True also for the mask of the site.
    """
    match value:
        case cst.Comparison(comparisons=[_]):
            return True
        case cst.UnaryOperation(operator=cst.BitInvert()):
            return True
        case cst.BinaryOperation(operator=cst.BitAnd() | cst.BitOr()):
            return True
        case cst.Call():
            return dotted_name(value.func).rpartition(".")[2] in _MASKS
    mask = find_read(site, site.node) if value is not site.node else None
    return mask is not None and is_same_mask(mask.mask, value)


def _is_slice_or_number(site: Site, part: cst.BaseSlice) -> bool:
    """Return whether an index beside the mask is a slice, `...` or a number."""
    if isinstance(part, cst.Slice):
        return True
    if not isinstance(part, cst.Index) or part.star is not None:
        return False
    if _is_ellipsis(part) or isinstance(part.value, cst.Integer):
        return True
    seen = site.observed(part.value)
    return seen is not None and set(seen.types) == {"int"}


def _is_full(part: cst.BaseSlice) -> bool:
    """Return whether an index is `:` or `...`."""
    bare = isinstance(part, cst.Slice) and part.lower is part.upper is part.step is None
    return bare or _is_ellipsis(part)


def _is_ellipsis(part: cst.BaseSlice) -> bool:
    return isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis)


def _code_without_spaces(node: cst.BaseExpression) -> str:
    """Return the source of an expression without whitespace and outer parentheses."""
    bare = node.with_changes(lpar=(), rpar=())
    return "".join(cst.Module([]).code_for_node(bare).split())
