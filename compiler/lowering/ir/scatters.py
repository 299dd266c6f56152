"""ATen operators that write values to some positions of a copy of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import sympy
import torch

from fullgraph.compiler.lowering.ir.builder import Call, broadcast_index, dense_order
from fullgraph.compiler.lowering.ir.expressions import Expression, IndexValue
from fullgraph.compiler.lowering.ir.index import (
    FloorDiv,
    Mod,
    ranges_of,
    unflatten_index,
    variables_of,
)
from fullgraph.compiler.lowering.ir.indexing import insert_positions, shared_dims
from fullgraph.compiler.lowering.ir.loops import Sizes, View
from fullgraph.compiler.lowering.ir.operators import apply, cast
from fullgraph.compiler.lowering.ir.views import diagonal_index, wrap


def _value(index: sympy.Expr) -> Expression:
    return IndexValue(torch.int64, index)


def _lower_slice_scatter(call: Call) -> View:
    view, source = call.view("self"), call.view("src")
    dim = call.dim("dim", len(view.sizes))
    start = wrap(sympy.sympify(call["start"] or 0), view.sizes[dim])
    step = sympy.sympify(call["step"] or 1)

    def body(index: Sizes) -> Expression:
        offset = index[dim] - start
        inner = (*index[:dim], FloorDiv(offset, step), *index[dim + 1 :])
        end = start + step * source.sizes[dim]
        condition = apply(
            "and",
            apply("ge", _value(index[dim]), _value(start)),
            apply("lt", _value(index[dim]), _value(end)),
        )
        if step != 1:
            is_step = apply("eq", _value(Mod(offset, step)), _value(sympy.Integer(0)))
            condition = apply("and", condition, is_step)
        value = cast(source.load(inner), call.dtype)
        return apply("masked", condition, value, view.load(index))

    return call.pointwise(body)


def _lower_select_scatter(call: Call) -> View:
    view, source = call.view("self"), call.view("src")
    dim = call.dim("dim", len(view.sizes))
    position = wrap(call.size("index"), view.sizes[dim])

    def body(index: Sizes) -> Expression:
        condition = apply("eq", _value(index[dim]), _value(position))
        value = cast(source.load((*index[:dim], *index[dim + 1 :])), call.dtype)
        return apply("where", condition, value, view.load(index))

    return call.pointwise(body)


def _lower_scatter(call: Call) -> View:
    base, positions = call.view("self"), call.view("index")
    dim = call.dim("dim", len(base.sizes))
    index = variables_of(positions.sizes)
    source = call["src"] if "src" in call.arguments else call["value"]
    body = source.load(index) if isinstance(source, View) else call.element(source, (), call.dtype)
    target = list(index) or []
    indirect = insert_positions(call, base, target, {dim: positions.load(index)}) if target else ()
    return call.builder.add_scatter(
        call.name, base, positions.sizes, cast(body, call.dtype), tuple(target), indirect
    )


def _lower_index_put(call: Call) -> View:
    base, source, given = call.view("self"), call.view("values"), call["indices"]
    assert isinstance(given, list | tuple)
    tensors = {dim: one for dim, one in enumerate(given) if isinstance(one, View)}
    start, shared = shared_dims(tensors)
    rest = [size for dim, size in enumerate(base.sizes) if dim not in tensors]
    sizes = (*rest[:start], *shared, *rest[start:])
    index = variables_of(sizes)
    inner = index[start : start + len(shared)]
    others = list(index[:start] + index[start + len(shared) :])
    target = [
        sympy.Integer(0) if dim in tensors else others.pop(0) for dim in range(len(base.sizes))
    ]
    positions: dict[int, Expression] = {
        dim: one.load(broadcast_index(one.sizes, inner, shared)) for dim, one in tensors.items()
    }
    indirect = insert_positions(call, base, target, positions)
    body = cast(source.load(broadcast_index(source.sizes, index, sizes)), call.dtype)
    return call.builder.add_scatter(call.name, base, sizes, body, tuple(target), indirect)


def _lower_diagonal_scatter(call: Call) -> View:
    base, source = call.view("self"), call.view("src")
    body = source.load(variables_of(source.sizes))
    index = diagonal_index(call, source.sizes, len(base.sizes))
    return call.builder.add_scatter(call.name, base, source.sizes, body, index)


def _lower_as_strided_scatter(call: Call) -> View:
    base, source = call.view("self"), call.view("src")
    buffer = call.builder.buffers[base.buffer]
    order = dense_order(buffer.sizes, buffer.strides)
    if order is None or base.index != variables_of(buffer.sizes):
        raise NotImplementedError("the tensor is a view")
    strides, index = call["stride"], variables_of(source.sizes)
    assert isinstance(strides, list | tuple)
    parts = (i * sympy.sympify(s) for i, s in zip(index, strides, strict=True))
    offset = sum(parts, sympy.sympify(call["storage_offset"] or 0))
    sizes = tuple(buffer.sizes[dim] for dim in order)
    target = [sympy.Integer(0)] * len(buffer.sizes)
    found = unflatten_index(offset, sizes, ranges_of(source.sizes))
    for dim, part in zip(order, found, strict=True):
        target[dim] = part
    return call.builder.add_scatter(
        call.name, base, source.sizes, source.load(index), tuple(target)
    )


SCATTERS: Mapping[str, Callable[[Call], View]] = MappingProxyType(
    {
        "slice_scatter": _lower_slice_scatter,
        "select_scatter": _lower_select_scatter,
        "scatter": _lower_scatter,
        "index_put": _lower_index_put,
        "diagonal_scatter": _lower_diagonal_scatter,
        "as_strided_scatter": _lower_as_strided_scatter,
    }
)
"""How each operator is lowered, by its name without namespace and overload."""
