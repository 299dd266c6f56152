"""ATen operators that read from computed positions or several operands, or write to positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import sympy
import torch

from fullgraph.compiler.lowering.ir.builder import Call, broadcast_index
from fullgraph.compiler.lowering.ir.expressions import Expression, Indirect
from fullgraph.compiler.lowering.ir.index import FloorDiv, Mod, loop_variable, variables_of
from fullgraph.compiler.lowering.ir.loops import Sizes, View
from fullgraph.compiler.lowering.ir.operators import (
    apply,
    cast,
    compare,
    constant,
    index_value,
    is_between,
)
from fullgraph.compiler.lowering.ir.views import diagonal_index, strided_index, wrap

ComputedIndex = tuple[Sizes, tuple[Indirect, ...]]
"""An index, and what those of its symbols are that stand for computed positions."""


def compute_index(
    call: Call, view: View, index: Sequence[sympy.Expr], positions: Mapping[int, Expression]
) -> ComputedIndex:
    """Return an index of a view in which the entries of `positions` replace those of `index`."""
    found, indirect = list(index), []
    for dim, position in positions.items():
        symbol = loop_variable("t", len(call.builder.steps) * 16 + dim)
        size = view.sizes[dim]
        checked = apply("wrap_index", cast(position, torch.int64), index_value(size))
        indirect.append(Indirect(symbol, checked, size))
        found[dim] = symbol
    return tuple(found), tuple(indirect)


def index_tensors(call: Call) -> dict[int, View]:
    """Return the tensors among the indices of a call, by the dim that each indexes."""
    return {dim: one for dim, one in enumerate(call["indices"]) if isinstance(one, View)}


def shared_dims(tensors: dict[int, View]) -> tuple[int, Sizes]:
    """Return where the dims of index tensors stand in the result, and the sizes of these dims."""
    rank = max(len(one.sizes) for one in tensors.values())
    sizes = [sympy.Integer(1)] * rank
    for one in tensors.values():
        for dim, size in enumerate(one.sizes, rank - len(one.sizes)):
            sizes[dim] = size if size != 1 else sizes[dim]
    dims = sorted(tensors)
    is_adjacent = dims == list(range(dims[0], dims[-1] + 1))
    return (dims[0] if is_adjacent else 0), tuple(sizes)


def index_by_tensors(
    call: Call, view: View, tensors: dict[int, View], index: Sizes
) -> ComputedIndex:
    """Return the index of the element of a view that is at `index` of `view[tensors]`."""
    start, sizes = shared_dims(tensors)
    end = start + len(sizes)
    rest = list(index[:start] + index[end:])
    dims = range(len(view.sizes))
    inner = [sympy.Integer(0) if dim in tensors else rest.pop(0) for dim in dims]
    positions = {
        dim: one.load(broadcast_index(one.sizes, index[start:end], sizes))
        for dim, one in tensors.items()
    }
    return compute_index(call, view, inner, positions)


def _lower_index(call: Call) -> View:
    view, tensors = call.view("self"), index_tensors(call)
    return call.pointwise(lambda index: view.load(*index_by_tensors(call, view, tensors, index)))


def _lower_gather(call: Call) -> View:
    view, positions = call.view("self"), call.view("index")
    if not view.sizes:
        return call.pointwise(lambda index: view.load(()))
    dim = call.dim("dim", len(view.sizes))
    return call.pointwise(
        lambda index: view.load(*compute_index(call, view, index, {dim: positions.load(index)}))
    )


def _lower_cat(call: Call) -> View:
    views = [one for one in call["tensors"] if 0 not in one.sizes]
    if not views:
        return call.pointwise(lambda index: constant(0, call.dtype))
    dim = call.dim("dim", len(call.sizes))

    def body(index: Sizes) -> Expression:
        end = call.sizes[dim]
        value: Expression | None = None
        for view in reversed(views):
            start = end - view.sizes[dim]
            inner = (*index[:dim], index[dim] - start, *index[dim + 1 :])
            part = cast(view.load(inner), call.dtype)
            if value is not None:
                value = apply("masked", compare("lt", index[dim], end), part, value)
            elif len(views) == 1:
                value = part
            else:  # is only loaded from `start` on
                is_inside = compare("ge", index[dim], start)
                value = apply("masked", is_inside, part, constant(0, call.dtype))
            end = start
        assert value is not None
        return value

    return call.pointwise(body)


def _lower_pad(call: Call) -> View:
    view, pad = call.view("self"), call["pad"]
    last = len(view.sizes) - 1
    before = {last - number: sympy.sympify(size) for number, size in enumerate(pad[::2])}

    def body(index: Sizes) -> Expression:
        inner = tuple(i - before.get(dim, 0) for dim, i in enumerate(index))
        zero = index_value(sympy.Integer(0))
        conditions = [is_between(inner[dim], zero, index_value(view.sizes[dim])) for dim in before]
        is_inside = reduce(lambda one, other: apply("and", one, other), conditions)
        fill = call.element(call["value"] or 0, index, call.dtype)
        return apply("masked", is_inside, view.load(inner), fill)

    return call.pointwise(body)


def _lower_flip(call: Call) -> View:
    view = call.view("self")
    dims = call.dims("dims", len(view.sizes)) if call["dims"] else ()
    return call.pointwise(
        lambda index: view.load(
            tuple(view.sizes[d] - 1 - i if d in dims else i for d, i in enumerate(index))
        )
    )


def _lower_arange(call: Call) -> View:
    dtype = torch.float64 if call.dtype.is_floating_point else torch.int64

    def body(index: Sizes) -> Expression:
        step = call.element(1 if call["step"] is None else call["step"], index, dtype)
        start = call.element(call["start"] or 0, index, dtype)
        return apply("add", apply("mul", cast(index_value(index[0]), dtype), step), start)

    return call.pointwise(body)


def _lower_slice_scatter(call: Call) -> View:
    view, source = call.view("self"), call.view("src")
    dim = call.dim("dim", len(view.sizes))
    start = wrap(sympy.sympify(call["start"] or 0), view.sizes[dim])
    step = sympy.sympify(call["step"] or 1)

    def body(index: Sizes) -> Expression:
        offset = index[dim] - start
        inner = (*index[:dim], FloorDiv(offset, step), *index[dim + 1 :])
        end = start + step * source.sizes[dim]
        condition = is_between(index[dim], index_value(start), index_value(end))
        if step != 1:
            is_step = compare("eq", Mod(offset, step), sympy.Integer(0))
            condition = apply("and", condition, is_step)
        value = cast(source.load(inner), call.dtype)
        return apply("masked", condition, value, view.load(index))

    return call.pointwise(body)


def _lower_select_scatter(call: Call) -> View:
    view, source = call.view("self"), call.view("src")
    dim = call.dim("dim", len(view.sizes))
    position = wrap(call.size("index"), view.sizes[dim])

    def body(index: Sizes) -> Expression:
        condition = compare("eq", index[dim], position)
        value = cast(source.load((*index[:dim], *index[dim + 1 :])), call.dtype)
        return apply("where", condition, value, view.load(index))

    return call.pointwise(body)


def _lower_scatter(call: Call) -> View:
    base, positions = call.view("self"), call.view("index")
    dim = call.dim("dim", len(base.sizes))
    index = variables_of(positions.sizes)
    source = call["src"] if "src" in call.arguments else call["value"]
    body = source.load(index) if isinstance(source, View) else call.element(source, (), call.dtype)
    computed = {dim: positions.load(index)} if index else {}
    target = compute_index(call, base, index, computed)
    return call.builder.add_scatter(
        call.name, base, positions.sizes, cast(body, call.dtype), *target
    )


def _lower_index_put(call: Call) -> View:
    base, source, tensors = call.view("self"), call.view("values"), index_tensors(call)
    start, shared = shared_dims(tensors)
    rest = [size for dim, size in enumerate(base.sizes) if dim not in tensors]
    sizes = (*rest[:start], *shared, *rest[start:])
    index = variables_of(sizes)
    target = index_by_tensors(call, base, tensors, index)
    body = cast(source.load(broadcast_index(source.sizes, index, sizes)), call.dtype)
    return call.builder.add_scatter(call.name, base, sizes, body, *target)


def _lower_diagonal_scatter(call: Call) -> View:
    base, source = call.view("self"), call.view("src")
    body = source.load(variables_of(source.sizes))
    index = diagonal_index(call, source.sizes, len(base.sizes))
    return call.builder.add_scatter(call.name, base, source.sizes, body, index)


def _lower_as_strided_scatter(call: Call) -> View:
    base, source = call.view("self"), call.view("src")
    buffer = call.builder.buffers[base.buffer]
    if base.index != variables_of(buffer.sizes):
        raise NotImplementedError("the tensor is a view")
    body = source.load(variables_of(source.sizes))
    target = strided_index(call, buffer, source.sizes)
    return call.builder.add_scatter(call.name, base, source.sizes, body, target)


INDEXING: Mapping[str, Callable[[Call], View]] = {
    "index": _lower_index,
    "gather": _lower_gather,
    "cat": _lower_cat,
    "constant_pad_nd": _lower_pad,
    "flip": _lower_flip,
    "arange": _lower_arange,
    "slice_scatter": _lower_slice_scatter,
    "select_scatter": _lower_select_scatter,
    "scatter": _lower_scatter,
    "index_put": _lower_index_put,
    "diagonal_scatter": _lower_diagonal_scatter,
    "as_strided_scatter": _lower_as_strided_scatter,
}
