"""Dimensions of selected elements beside the one that counts them."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.operators import Operation
from fullgraph.rewrites.transforms.masks.reads import Read

_AFTER_ONE_OPTION = frozenset(
    {"norm", "normalize", "cosine_similarity", "take_along_dim", "quantile", "nanquantile"}
)
"""Operations whose dimension is the second option."""


def other_dims(site: Site, first: Read, node: cst.BaseExpression) -> int:
    """Return how many dimensions `node` has besides the one that counts selected elements.

    1 for `x[m] * 2` if `x` is 2-d and `m` is 1-d. `first` is the masked read `x[m]` that `node` is
    computed from; its shape is used if that of `node` was not observed.
    """
    seen = site.observed(node)
    if seen is None or len(seen.dims) != 1:
        return first.axis + first.trailing_dims if first.known else 0
    return next(iter(seen.dims)) - 1


def is_flat(site: Site, first: Read, made: Operation) -> bool:
    """Return whether a `view` or `flatten` leaves the shape of selected elements as it is.

    `first` is the masked read `x[m]`. True for `x[m].view(-1)` if `x[m]` is 1-d, and for
    `x[m].view(-1, 4)` if `x[m]` is 2-d and has 4 columns.
    """
    if not first.known:
        return False
    seen = site.observed(made.tensor)
    count = other_dims(site, first, made.tensor)
    if made.name in ("flatten", "ravel"):
        return count == 0 and not made.options
    head, *sizes = [option.value for option in made.options] or [made.tensor]
    if ops.integer_literal(head) != -1 or seen is None or len(sizes) != count:
        return False
    return all(
        {shape[i + 1] for shape in seen.shapes} == _observed_numbers(site, size)
        for i, size in enumerate(sizes)
    )


def _observed_numbers(site: Site, node: cst.BaseExpression) -> set[object]:
    """Return the values that a size was observed to have; {4} for the literal 4."""
    bare, seen = ops.integer_literal(node), site.observed(node)
    return {bare} if bare is not None else set(seen.values if seen is not None else ())


def is_rowwise(site: Site, first: Read, operation: Operation, axis: int) -> bool:
    """Return whether the call `operation` combines only elements of the same selected row.

    True for `x[m].softmax(-1)` if `x[m]` is 2-d: its rows are the selected ones. `first` is the
    masked read, `x[m]`; `axis` is the dimension of the call's input that counts these rows, 0 here.
    Raises NotApplicable if `dim` names another dimension of `x` than of `x[m]`: in
    `x[m].softmax(1)` with a 2-d `m`, dimension 1 of `x[m]` is dimension 2 of `x`.
    """
    found = reduced_dimensions(operation)
    if found is None:
        return False
    rest = other_dims(site, first, operation.tensor) + (operation.name == "unsqueeze")
    count, rest = rest + 1, rest - axis
    absolute = [dim % count for dim in found]
    inner = all(dim > axis for dim in absolute) and rest > 0
    if inner and first.dims > 1 and any(dim >= 0 for dim in found):
        raise NotApplicable(
            "a dimension would have another number at full shape: write it negative"
        )
    return inner


def covers_mask_dims(site: Site, first: Read, made: Operation, axis: int) -> bool:
    """Return whether a reduction combines selected elements with each other: `x[m].sum(0)`.

    True also for `x[m].sum()` and for a `dim` that is not a literal. `axis` is the dimension of the
    call's input that counts selected elements, and `first` the masked read.
    """
    found = reduced_dimensions(made)
    count = other_dims(site, first, made.tensor) + 1
    return found is None or axis in [dim % count for dim in found]


def reduced_dimensions(made: Operation) -> tuple[int, ...] | None:
    """Return the dimensions that an operation reduces: (0,) for `x.sum(0)`.

    None if the call gives none, or not as literals.
    """
    return ops.integer_literals(dimension_option(made))


def dimension_option(made: Operation) -> cst.BaseExpression | None:
    """Return the expression passed as `dim` or `axis`: `-1` for `x.sum(-1)`.

    None if the call passes neither.
    """
    place = 1 if made.name in _AFTER_ONE_OPTION else 0
    place += made.name == "cosine_similarity" and made.method is False
    return made.argument("dim", place) or made.argument("axis", 99)


def is_column_read(site: Site, first: Read, node: cst.Subscript, axis: int) -> bool:
    """Return whether a subscript reads columns of selected rows: `x[m][:, 0]` or `x[m][..., 0]`.

    `first` is the masked read `x[m]`. `axis` is the dimension of `x[m]` that counts the selected
    rows; if it is not 0, the answer is False.
    """
    if axis != 0 or other_dims(site, first, node.value) == 0:
        return False
    head = node.slice[0].slice
    whole = isinstance(head, cst.Slice) and head.lower is head.upper is head.step is None
    dots = isinstance(head, cst.Index) and isinstance(head.value, cst.Ellipsis)
    plain = (cst.Slice, cst.Integer, cst.Ellipsis, cst.UnaryOperation)
    bare = [s.slice.value if isinstance(s.slice, cst.Index) else s.slice for s in node.slice]
    if not all(isinstance(one, plain) for one in bare):
        return False
    return len(node.slice) > 1 and ((whole and first.dims == 1) or dots)


def is_index_before_mask(node: cst.Subscript, axis: int) -> bool:
    """Return whether a subscript is `x[:, m][i]` with a literal `i`: it keeps what `m` selects.

    `axis` is the dimension of `x[:, m]` that counts selected elements, here 1. If it is 0, as for
    `x[m][i]`, the answer is False.
    """
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=only_index))]:
            return axis > 0 and ops.integer_literal(only_index) is not None
    return False


def is_table(site: Site, table: cst.BaseExpression, index: cst.BaseExpression) -> bool:
    """Return whether `table[index]` looks up rows of a tensor by a tensor of integers.

    False if either was not observed, or if `table` has no rows.
    """
    seen, whole = site.observed(index), site.observed(table)
    if seen is None or whole is None or not whole.is_tensor:
        return False
    return seen.dtypes <= {"int64", "int32"} and all(shape[:1] > (0,) for shape in whole.shapes)


def value_of_element(assign: cst.Assign, target: cst.CSTNode) -> cst.BaseExpression:
    """Return the value that `a, b = x, y` assigns to `target`.

    The whole value of an assignment that is not of this form.
    """
    pairs = _pairs(assign)
    return next((value.value for one, value in pairs if one is target), assign.value)


def target_of_element(assign: cst.CSTNode, value: cst.Element) -> cst.Name | None:
    """Return the name to which `a, b = x, y` assigns `value`; None for other code."""
    pairs = _pairs(assign) if isinstance(assign, cst.Assign) else []
    found = next((one.value for one, other in pairs if other is value), None)
    return found if isinstance(found, cst.Name) else None


def _pairs(assign: cst.Assign) -> list[tuple[cst.BaseElement, cst.BaseElement]]:
    """Return the targets of `a, b = x, y` with their values; [] for other assignments."""
    match assign:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Tuple() as to)], value=cst.Tuple() as of
        ):
            plain = len(to.elements) == len(of.elements)
            return list(zip(to.elements, of.elements, strict=True)) if plain else []
    return []


def only_index(node: cst.Subscript) -> cst.BaseExpression | None:
    """Return the only index of a subscript; None if there are several, or slices."""
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=value, star=None))]:
            return value
    return None
