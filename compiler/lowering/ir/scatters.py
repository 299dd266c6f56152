"""ATen operators that write values to some positions of a copy of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import sympy

from fullgraph.compiler.lowering.ir.builder import Call, broadcast_index
from fullgraph.compiler.lowering.ir.expressions import Expression
from fullgraph.compiler.lowering.ir.index import FloorDiv, Mod, variables_of
from fullgraph.compiler.lowering.ir.indexing import (
    compute_index,
    index_by_tensors,
    index_tensors,
    shared_dims,
)
from fullgraph.compiler.lowering.ir.loops import Sizes, View
from fullgraph.compiler.lowering.ir.operators import apply, cast, compare, index_value, is_between
from fullgraph.compiler.lowering.ir.views import diagonal_index, strided_index, wrap


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
