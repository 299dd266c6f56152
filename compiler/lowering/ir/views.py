"""ATen operators that are views: index arithmetic, no loop but for bits of another dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sympy

from fullgraph.compiler.lowering.ir.builder import Call, broadcast_index, dense_order
from fullgraph.compiler.lowering.ir.index import (
    Mod,
    ranges_of,
    reshape_index,
    simplify,
    unflatten_index,
    variables_of,
)
from fullgraph.compiler.lowering.ir.loops import Buffer, Sizes, View
from fullgraph.compiler.lowering.ir.pointwise import lower_bits


def reindex(view: View, sizes: Sizes, index: Sizes) -> View:
    """Return the view whose element at (i0, i1, …) is the element `index` of another view."""
    ranges = ranges_of(sizes)
    inner = tuple(simplify(part, ranges) for part in view.load(index).index)
    return View(view.buffer, sizes, view.dtype, inner)


def reshape(view: View, sizes: Sizes) -> View:
    """Return the view with the same elements in other sizes."""
    index = reshape_index(variables_of(sizes), sizes, view.sizes, ranges_of(sizes))
    return reindex(view, sizes, index)


def wrap(position: sympy.Expr, size: sympy.Expr) -> sympy.Expr:
    """Return a position that may count from the end as one from 0."""
    if any(symbol.is_nonnegative is None for symbol in position.free_symbols):
        return Mod(position, size)
    return position + size if position.is_negative else position


def _lower_reshape(call: Call) -> View:
    if call.dtype != call.view("self").dtype:
        return lower_bits(call)
    return reshape(call.view("self"), call.sizes)


def _lower_permute(call: Call) -> View:
    view = call.view("self")
    dims = [int(dim) % len(view.sizes) for dim in call["dims"]]
    variables = dict(zip(dims, variables_of(call.sizes), strict=True))
    return reindex(view, call.sizes, tuple(variables[dim] for dim in range(len(dims))))


def _lower_expand(call: Call) -> View:
    view, sizes = call.view("self"), call.sizes
    return reindex(view, sizes, broadcast_index(view.sizes, variables_of(sizes), sizes))


def _lower_slice(call: Call) -> View:
    view = call.view("self")
    if not view.sizes:
        return view
    dim = call.dim("dim", len(view.sizes))
    size = view.sizes[dim]
    start = wrap(sympy.sympify(call["start"] or 0), size)
    if start.is_Integer and size.is_Integer:
        start = sympy.Integer(min(max(int(start), 0), int(size)))
    index = list(variables_of(call.sizes))
    index[dim] = start + sympy.sympify(call["step"] or 1) * index[dim]
    return reindex(view, call.sizes, tuple(index))


def _lower_select(call: Call) -> View:
    view = call.view("self")
    dim = call.dim("dim", len(view.sizes))
    index = list(variables_of(call.sizes))
    index.insert(dim, wrap(call.size("index"), view.sizes[dim]))
    return reindex(view, call.sizes, tuple(index))


def diagonal_index(call: Call, sizes: Sizes, rank: int) -> Sizes:
    """Return the index, of `rank` dims, of the element of a diagonal of some sizes."""
    first, second = call.dim("dim1", rank), call.dim("dim2", rank)
    offset = call.size("offset")
    *others, along = variables_of(sizes)
    index: list[sympy.Expr] = []
    for dim in range(rank):
        if dim == first:
            index.append(along + sympy.Max(-offset, 0))
        elif dim == second:
            index.append(along + sympy.Max(offset, 0))
        else:
            index.append(others.pop(0))
    return tuple(index)


def _lower_diagonal(call: Call) -> View:
    view = call.view("self")
    return reindex(view, call.sizes, diagonal_index(call, call.sizes, len(view.sizes)))


def strided_index(
    call: Call, buffer: Buffer, sizes: Sizes, part: sympy.Symbol | None = None
) -> Sizes:
    """Return the index into a buffer of the element at (i0, i1, …) by a call's strides and offset.

    `part` is the part of a complex element, 0 or 1. Raises `NotImplementedError` if the buffer's
    memory has gaps.
    """
    order = dense_order(buffer.sizes, buffer.strides)
    if order is None:
        raise NotImplementedError("the memory of the tensor has gaps")
    parts = zip(variables_of(sizes), map(sympy.sympify, call["stride"]), strict=True)
    offset = sum((v * stride for v, stride in parts), sympy.sympify(call["storage_offset"] or 0))
    ranges = ranges_of(sizes)
    if part is not None:
        offset, ranges[part] = 2 * offset + part, sympy.Integer(2)
    found = unflatten_index(offset, tuple(buffer.sizes[dim] for dim in order), ranges)
    index = [sympy.Integer(0)] * len(buffer.sizes)
    for dim, part in zip(order, found, strict=True):
        index[dim] = part
    return tuple(index)


def _lower_as_strided(call: Call) -> View:
    view = call.view("self")
    index = strided_index(call, call.builder.buffers[view.buffer], call.sizes)
    return View(view.buffer, call.sizes, view.dtype, index)


def _lower_unfold(call: Call) -> View:
    view = call.view("self")
    if not view.sizes:
        return reshape(view, call.sizes)
    dim = call.dim("dimension", len(view.sizes))
    *index, inside = variables_of(call.sizes)
    index[dim] = index[dim] * call.size("step") + inside
    return reindex(view, call.sizes, tuple(index))


VIEWS: Mapping[str, Callable[[Call], View]] = {
    **dict.fromkeys(("alias", "detach"), lambda call: call.view("self")),
    **dict.fromkeys(("view", "reshape", "squeeze", "unsqueeze"), _lower_reshape),
    "permute": _lower_permute,
    "expand": _lower_expand,
    "slice": _lower_slice,
    "select": _lower_select,
    "diagonal": _lower_diagonal,
    "as_strided": _lower_as_strided,
    "unfold": _lower_unfold,
}
