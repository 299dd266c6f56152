"""ATen operators whose elements come from computed positions, or from one of several operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

import sympy
import torch

from fullgraph.compiler.lowering.ir.builder import Call, broadcast_index
from fullgraph.compiler.lowering.ir.expressions import Expression, IndexValue, Indirect, Load
from fullgraph.compiler.lowering.ir.index import Mod, loop_variable
from fullgraph.compiler.lowering.ir.loops import Sizes, View
from fullgraph.compiler.lowering.ir.operators import apply, cast, constant

MAX_WINDOW = 64
"""Most elements of a window that is unrolled."""


def gather(
    call: Call, view: View, index: list[sympy.Expr], positions: dict[int, Expression]
) -> Load:
    """Return the load of a view's element; the entries of `positions` replace index entries."""
    indirect = insert_positions(call, view, index, positions)
    load = view.load(tuple(index))
    return Load(load.dtype, load.buffer, load.index, indirect)


def insert_positions(
    call: Call, view: View, index: list[sympy.Expr], positions: dict[int, Expression]
) -> tuple[Indirect, ...]:
    """Put a symbol for each computed position into an index; return what the symbols are."""
    indirect = []
    for dim, position in positions.items():
        symbol = loop_variable("t", len(call.builder.steps) * 16 + dim)
        size = view.sizes[dim]
        checked = apply("wrap_index", cast(position, torch.int64), IndexValue(torch.int64, size))
        indirect.append(Indirect(symbol, checked, size))
        index[dim] = symbol
    return tuple(indirect)


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


def _lower_index(call: Call) -> View:
    view, given = call.view("self"), call["indices"]
    assert isinstance(given, list | tuple)
    tensors = {dim: one for dim, one in enumerate(given) if isinstance(one, View)}
    if any(one.dtype == torch.bool for one in tensors.values()):
        raise NotImplementedError("the mask makes the result's size depend on data")
    start, target = shared_dims(tensors)
    rank = len(target)

    def body(index: Sizes) -> Expression:
        shared = index[start : start + rank]
        rest = list(index[:start] + index[start + rank :])
        inner: list[sympy.Expr] = [
            sympy.Integer(0) if dim in tensors else rest.pop(0) for dim in range(len(view.sizes))
        ]
        positions: dict[int, Expression] = {
            dim: one.load(broadcast_index(one.sizes, shared, target))
            for dim, one in tensors.items()
        }
        return gather(call, view, inner, positions)

    return call.pointwise(body)


def _lower_embedding(call: Call) -> View:
    table, positions = call.view("weight"), call.view("indices")
    return call.pointwise(
        lambda index: gather(
            call, table, [sympy.Integer(0), index[-1]], {0: positions.load(index[:-1])}
        )
    )


def _lower_gather(call: Call) -> View:
    view, positions = call.view("self"), call.view("index")
    if not view.sizes:
        return call.pointwise(lambda index: view.load(()))
    dim = call.dim("dim", len(view.sizes))
    return call.pointwise(
        lambda index: gather(call, view, list(index), {dim: positions.load(index)})
    )


def _lower_index_select(call: Call) -> View:
    view, positions = call.view("self"), call.view("index")
    dim = call.dim("dim", len(view.sizes))
    return call.pointwise(
        lambda index: gather(call, view, list(index), {dim: positions.load((index[dim],))})
    )


def _value(index: sympy.Expr) -> Expression:
    return IndexValue(torch.int64, index)


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
            if value is None:
                value = part if len(views) == 1 else _guard(index[dim], start, part, call.dtype)
            else:
                is_before = apply("lt", _value(index[dim]), _value(end))
                value = apply("masked", is_before, part, value)
            end = start
        assert value is not None
        return value

    return call.pointwise(body)


def _guard(
    position: sympy.Expr, start: sympy.Expr, part: Expression, dtype: torch.dtype
) -> Expression:
    """Return a part that is only loaded from `start` on."""
    return apply("masked", apply("ge", _value(position), _value(start)), part, constant(0, dtype))


def _lower_pad(call: Call) -> View:
    view, pad = call.view("self"), call["pad"]
    assert isinstance(pad, list | tuple)
    before = [sympy.Integer(0)] * len(view.sizes)
    touched = []
    for position in range(len(pad) // 2):
        dim = len(view.sizes) - 1 - position
        before[dim] = sympy.sympify(pad[2 * position])
        touched.append(dim)

    def body(index: Sizes) -> Expression:
        inner = tuple(i - start for i, start in zip(index, before, strict=True))
        condition = _is_within(
            [inner[dim] for dim in touched], [view.sizes[dim] for dim in touched]
        )
        fill = call.element(call["value"] or 0, index, call.dtype)
        return apply("masked", condition, view.load(inner), fill)

    return call.pointwise(body)


def _lower_flip(call: Call) -> View:
    view = call.view("self")
    dims = call.dims("dims", len(view.sizes)) if call["dims"] else ()
    return call.pointwise(
        lambda index: view.load(
            tuple(view.sizes[d] - 1 - i if d in dims else i for d, i in enumerate(index))
        )
    )


def _lower_repeat(call: Call) -> View:
    view = call.view("self")
    start = len(call.sizes) - len(view.sizes)
    return call.pointwise(
        lambda index: view.load(
            tuple(
                i if size == total else Mod(i, size)
                for i, size, total in zip(
                    index[start:], view.sizes, call.sizes[start:], strict=True
                )
            )
        )
    )


def _lower_arange(call: Call) -> View:
    dtype = torch.float64 if call.dtype.is_floating_point else torch.int64

    def body(index: Sizes) -> Expression:
        step = call.element(1 if call["step"] is None else call["step"], index, dtype)
        start = call.element(call["start"] or 0, index, dtype)
        return apply("add", apply("mul", cast(_value(index[0]), dtype), step), start)

    return call.pointwise(body)


def _lower_tri(call: Call, *, is_lower: bool) -> View:
    view = call.view("self")
    diagonal = call.size("diagonal")

    def body(index: Sizes) -> Expression:
        operator = "le" if is_lower else "ge"
        condition = apply(operator, _value(index[-1] - index[-2]), _value(diagonal))
        return apply("where", condition, view.load(index), constant(0, call.dtype))

    return call.pointwise(body)


def _lower_avg_pool2d(call: Call) -> View:
    view = call.view("self")
    kernel, padding = _pair(call["kernel_size"]), _pair(call["padding"])
    stride = _pair(call["stride"] or call["kernel_size"])
    if kernel[0] * kernel[1] > MAX_WINDOW:
        raise NotImplementedError(f"a window of more than {MAX_WINDOW} elements")
    is_inside = padding == (0, 0) and not call["ceil_mode"]

    def body(index: Sizes) -> Expression:
        starts = [index[dim - 2] * stride[dim] - padding[dim] for dim in (0, 1)]
        zero: Expression = constant(0, call.dtype)
        total = zero
        for row in range(kernel[0]):
            for column in range(kernel[1]):
                inner = (starts[0] + row, starts[1] + column)
                part: Expression = view.load((*index[:-2], *inner))
                if not is_inside:
                    part = apply("masked", _is_within(inner, view.sizes[-2:]), part, zero)
                total = apply("add", total, part)
        if is_inside or call["divisor_override"]:
            count = call["divisor_override"] or kernel[0] * kernel[1]
            return apply("div", total, call.element(count, index, call.dtype))
        ends = [
            sympy.Min(starts[dim] + kernel[dim], view.sizes[dim - 2] + padding[dim])
            for dim in (0, 1)
        ]
        if not call["count_include_pad"]:
            starts = [sympy.Max(start, 0) for start in starts]
            ends = [sympy.Min(ends[dim], view.sizes[dim - 2]) for dim in (0, 1)]
        area = _value(sympy.Mul(*(e - s for e, s in zip(ends, starts, strict=True))))
        return apply("div", total, cast(area, call.dtype))

    return call.pointwise(body)


def _is_within(index: Sequence[sympy.Expr], sizes: Sequence[sympy.Expr]) -> Expression:
    """Return whether an index is within sizes."""
    zero = _value(sympy.Integer(0))
    parts = [
        apply("and", apply("ge", _value(i), zero), apply("lt", _value(i), _value(size)))
        for i, size in zip(index, sizes, strict=True)
    ]
    return reduce(lambda one, other: apply("and", one, other), parts)


def _pair(value: object) -> tuple[int, int]:
    """Return a number for each of two dims."""
    numbers: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
    return int(numbers[0]), int(numbers[-1])


def _lower_iota(call: Call) -> View:
    def body(index: Sizes) -> Expression:
        offset = call.size("start") + call.size("step") * index[0]
        return cast(_value(offset), call.dtype)

    return call.pointwise(body)


INDEXING: Mapping[str, Callable[[Call], View]] = MappingProxyType(
    {
        "index": _lower_index,
        "_unsafe_index": _lower_index,
        "embedding": _lower_embedding,
        "gather": _lower_gather,
        "index_select": _lower_index_select,
        "cat": _lower_cat,
        "constant_pad_nd": _lower_pad,
        "flip": _lower_flip,
        "repeat": _lower_repeat,
        "arange": _lower_arange,
        "iota": _lower_iota,
        "tril": lambda call: _lower_tri(call, is_lower=True),
        "triu": lambda call: _lower_tri(call, is_lower=False),
        "avg_pool2d": _lower_avg_pool2d,
    }
)
"""How each operator is lowered, by its name without namespace and overload."""
