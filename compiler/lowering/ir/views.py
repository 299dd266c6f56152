"""ATen operators that are views: index arithmetic, no loop but for bits of another dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import sympy

from fullgraph.compiler.lowering.ir.builder import Call, dense_order
from fullgraph.compiler.lowering.ir.index import (
    Mod,
    ranges_of,
    reshape_index,
    simplify,
    unflatten_index,
    variables_of,
)
from fullgraph.compiler.lowering.ir.loops import Sizes, View
from fullgraph.compiler.lowering.ir.special import lower_bits
from fullgraph.compiler.private import expression_of

ONE = sympy.Integer(1)


def reindex(view: View, sizes: Sizes, index: Sizes) -> View:
    """Return the view whose element at (i0, i1, …) is the element `index` of another view."""
    ranges = ranges_of(sizes)
    inner = tuple(simplify(part, ranges) for part in view.load(index).index)
    return View(view.buffer, sizes, view.dtype, inner)


def reshape(view: View, sizes: Sizes) -> View:
    """Return the view with the same elements in other sizes."""
    index = reshape_index(variables_of(sizes), sizes, view.sizes, ranges_of(sizes))
    return reindex(view, sizes, index)


def permute(view: View, dims: tuple[int, ...]) -> View:
    """Return the view with its dims in another order."""
    sizes = tuple(view.sizes[dim] for dim in dims)
    variables = dict(zip(dims, variables_of(sizes), strict=True))
    return reindex(view, sizes, tuple(variables[dim] for dim in range(len(dims))))


def slice_dim(
    view: View, dim: int, start: sympy.Expr, size: sympy.Expr, step: sympy.Expr = ONE
) -> View:
    """Return `size` positions of a dim, from `start` in steps."""
    sizes = (*view.sizes[:dim], size, *view.sizes[dim + 1 :])
    index = list(variables_of(sizes))
    index[dim] = start + step * index[dim]
    return reindex(view, sizes, tuple(index))


def select_dim(view: View, dim: int, position: sympy.Expr) -> View:
    """Return one position of a dim; the dim is left out."""
    sizes = (*view.sizes[:dim], *view.sizes[dim + 1 :])
    index = list(variables_of(sizes))
    index.insert(dim, position)
    return reindex(view, sizes, tuple(index))


def wrap(position: sympy.Expr, size: sympy.Expr) -> sympy.Expr:
    """Return a position that may count from the end as one from 0."""
    if any(symbol.is_nonnegative is None for symbol in position.free_symbols):
        return Mod(position, size)
    return position + size if position.is_negative else position


def _lower_alias(call: Call) -> View:
    return call.view("self")


def _lower_reshape(call: Call) -> View:
    if call.dtype != call.view("self").dtype:
        return lower_bits(call)
    return reshape(call.view("self"), call.sizes)


def _lower_permute(call: Call) -> View:
    view = call.view("self")
    dims = call["dims"]
    assert isinstance(dims, list | tuple)
    return permute(view, tuple(int(dim) % len(view.sizes) for dim in dims))


def _lower_transpose(call: Call) -> View:
    view = call.view("self")
    dims = list(range(len(view.sizes)))
    if dims:
        first, second = call.dim("dim0", len(dims)), call.dim("dim1", len(dims))
        dims[first], dims[second] = dims[second], dims[first]
    return permute(view, tuple(dims))


def _lower_t(call: Call) -> View:
    view = call.view("self")
    return permute(view, tuple(reversed(range(len(view.sizes)))))


def _lower_expand(call: Call) -> View:
    view, sizes = call.view("self"), call.sizes
    start = len(sizes) - len(view.sizes)
    index = tuple(
        sympy.Integer(0) if size == 1 else variable
        for size, variable in zip(view.sizes, variables_of(sizes)[start:], strict=True)
    )
    return reindex(view, sizes, index)


def _lower_slice(call: Call) -> View:
    view = call.view("self")
    if not view.sizes:
        return view
    dim = call.dim("dim", len(view.sizes))
    size = view.sizes[dim]
    start = wrap(sympy.sympify(call["start"] or 0), size)
    if start.is_Integer and size.is_Integer:
        start = sympy.Integer(min(max(int(start), 0), int(size)))
    return slice_dim(view, dim, start, call.sizes[dim], sympy.sympify(call["step"] or 1))


def _lower_select(call: Call) -> View:
    view = call.view("self")
    dim = call.dim("dim", len(view.sizes))
    return select_dim(view, dim, wrap(call.size("index"), view.sizes[dim]))


def _lower_unsqueeze(call: Call) -> View:
    return reshape(call.view("self"), call.sizes)


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


def _lower_as_strided(call: Call) -> View:
    view = call.view("self")
    buffer = call.builder.buffers[view.buffer]
    order = dense_order(buffer.sizes, buffer.strides)
    if order is None:
        raise NotImplementedError("the memory of the tensor has gaps")
    variables = variables_of(call.sizes)
    strides = call["stride"]
    assert isinstance(strides, list | tuple)
    given = call["storage_offset"]
    offset = sum(
        (v * sympy.sympify(s) for v, s in zip(variables, strides, strict=True)),
        sympy.sympify(given or 0),
    )
    sizes = tuple(buffer.sizes[dim] for dim in order)
    parts = unflatten_index(offset, sizes, ranges_of(call.sizes))
    index = [sympy.Integer(0)] * len(buffer.sizes)
    for dim, part in zip(order, parts, strict=True):
        index[dim] = part
    return View(view.buffer, call.sizes, view.dtype, tuple(index))


def _lower_split(call: Call) -> tuple[View, ...]:
    view = call.view("self")
    dim = call.dim("dim", len(view.sizes))
    start = sympy.Integer(0)
    parts = []
    assert isinstance(call.result, list | tuple)
    for result in call.result:
        size = expression_of(result.shape[dim])
        parts.append(slice_dim(view, dim, start, size))
        start += size
    return tuple(parts)


def _lower_unbind(call: Call) -> tuple[View, ...]:
    view = call.view("self")
    dim = call.dim("dim", len(view.sizes))
    assert isinstance(call.result, list | tuple)
    return tuple(select_dim(view, dim, sympy.Integer(i)) for i in range(len(call.result)))


def _lower_unfold(call: Call) -> View:
    view = call.view("self")
    if not view.sizes:
        return reshape(view, call.sizes)
    dim = call.dim("dimension", len(view.sizes))
    *index, inside = variables_of(call.sizes)
    index[dim] = index[dim] * call.size("step") + inside
    return reindex(view, call.sizes, tuple(index))


VIEWS: Mapping[str, Callable[[Call], View | tuple[View, ...]]] = MappingProxyType(
    {
        "alias": _lower_alias,
        "detach": _lower_alias,
        "view": _lower_reshape,
        "reshape": _lower_reshape,
        "_unsafe_view": _lower_reshape,
        "_reshape_alias": _lower_reshape,
        "permute": _lower_permute,
        "transpose": _lower_transpose,
        "t": _lower_t,
        "expand": _lower_expand,
        "slice": _lower_slice,
        "select": _lower_select,
        "squeeze": _lower_unsqueeze,
        "unsqueeze": _lower_unsqueeze,
        "diagonal": _lower_diagonal,
        "as_strided": _lower_as_strided,
        "split": _lower_split,
        "split_with_sizes": _lower_split,
        "unbind": _lower_unbind,
        "unfold": _lower_unfold,
    }
)
