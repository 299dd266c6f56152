"""ATen operators that reduce dims, and those that accumulate along one, such as cumsum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import sympy
import torch

from fullgraph.compiler.lowering.ir.builder import Call
from fullgraph.compiler.lowering.ir.expressions import Expression
from fullgraph.compiler.lowering.ir.index import product, variables_of
from fullgraph.compiler.lowering.ir.loops import ReductionKind, Scan, ScanKind, Sizes, View
from fullgraph.compiler.lowering.ir.operators import apply, cast, constant, index_value
from fullgraph.compiler.lowering.ir.views import reshape

Body = Callable[[Sizes, Sizes], Expression]


def reduce_dims(
    call: Call,
    view: View,
    dims: tuple[int, ...],
    kind: ReductionKind,
    dtype: torch.dtype,
    body: Body | None = None,
) -> View:
    """Add a reduction over dims of a view; the result keeps those dims with size 1.

    `body(index, kept index)` is the element to reduce, of the dtype `dtype`; by default the view's.
    """
    rank = range(len(view.sizes))
    kept = [dim for dim in rank if dim not in dims]
    kept_sizes, reduced_sizes = (tuple(view.sizes[d] for d in part) for part in (kept, dims))
    variables = dict(zip(kept, variables_of(kept_sizes), strict=True))
    with_kept_dims = tuple(variables.get(dim, sympy.Integer(0)) for dim in rank)
    variables.update(zip(dims, variables_of(reduced_sizes, "r"), strict=True))
    index = tuple(variables[dim] for dim in rank)
    value = body(index, with_kept_dims) if body else cast(view.load(index), dtype)
    is_position = kind in ("argmax", "argmin")
    result = torch.int64 if is_position else dtype
    if not dims:
        value = constant(0, torch.int64) if is_position else value
        return call.builder.add_loop(call.name, kept_sizes, cast(value, result))
    made = call.builder.add_loop(
        call.name, kept_sizes, value, reduction=kind, reduced=reduced_sizes, dtype=result
    )
    return reshape(
        made, tuple(sympy.Integer(1) if dim in dims else view.sizes[dim] for dim in rank)
    )


def _accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which elements of a dtype are accumulated."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def _finish(call: Call, view: View) -> View:
    """Return the result of a reduction with the call's sizes and dtype."""
    view = reshape(view, call.sizes)
    if view.dtype == call.dtype:
        return view
    return call.pointwise(lambda index: call.element(view, index, view.dtype))


def _reduction(kind: ReductionKind) -> Callable[[Call], View]:
    """Return the lowering of a reduction that accumulates in its result's dtype."""

    def lower(call: Call) -> View:
        view = call.view("self")
        dims = call.dims("dim", len(view.sizes))
        dtype = torch.bool if kind == "any" else _accumulator(call.dtype)
        return _finish(call, reduce_dims(call, view, dims, kind, dtype))

    return lower


def _divide(call: Call, total: View, count: Expression) -> View:
    """Return a view's elements divided by a number."""
    value = apply("div", total.load(variables_of(total.sizes)), cast(count, total.dtype))
    return call.builder.add_loop(call.name, total.sizes, value)


def _lower_variance_and_mean(call: Call) -> tuple[View, View]:
    """Lower `var_mean` to two passes, as eager is accurate."""
    view = call.view("self")
    dims = call.dims("dim", len(view.sizes))
    dtype = _accumulator(call.dtype)
    count = index_value(product([view.sizes[dim] for dim in dims]))
    mean = _divide(call, reduce_dims(call, view, dims, "sum", dtype), count)

    def squared(index: Sizes, kept: Sizes) -> Expression:
        difference = apply("sub", cast(view.load(index), dtype), mean.load(kept))
        return apply("mul", difference, difference)

    total = reduce_dims(call, view, dims, "sum", dtype, squared)
    correction = 1 if call["correction"] is None else call["correction"]
    degrees = apply("sub", cast(count, dtype), constant(correction, dtype))
    variance = _divide(call, total, apply("maximum", degrees, constant(0, dtype)))
    return _finish(call, variance), _finish(call, mean)


def _position(kind: ReductionKind) -> Callable[[Call], View]:
    """Return the lowering of argmax or argmin."""

    def lower(call: Call) -> View:
        view = call.view("self")
        if call["dim"] is None:
            view = reshape(view, (product(view.sizes),))
        dims = call.dims("dim", len(view.sizes))
        return reshape(reduce_dims(call, view, dims, kind, view.dtype), call.sizes)

    return lower


def _scan(call: Call, kind: ScanKind, dtype: torch.dtype | None = None) -> View:
    """Add a scan of the operand as the result's dtype; `dtype` is that of positions."""
    view = call.view("self")
    body = cast(view.load(variables_of(view.sizes)), call.dtype)
    if not view.sizes:
        return call.builder.add_loop(call.name, (), constant(0, dtype) if dtype else body)
    scan = Scan(kind, call.dim("dim", len(view.sizes)))
    return call.builder.add_loop(
        call.name, view.sizes, body, strides=call.strides, scan=scan, dtype=dtype
    )


def _scan_with_positions(kind: ScanKind, arg: ScanKind) -> Callable[[Call], tuple[View, View]]:
    """Return the lowering of cummax or cummin: values and their positions."""
    return lambda call: (_scan(call, kind), _scan(call, arg, torch.int64))


REDUCTIONS: Mapping[str, Callable[[Call], View | tuple[View, ...]]] = {
    "sum": _reduction("sum"),
    "prod": _reduction("prod"),
    "amax": _reduction("max"),
    "amin": _reduction("min"),
    "any": _reduction("any"),
    "argmax": _position("argmax"),
    "argmin": _position("argmin"),
    "var_mean": _lower_variance_and_mean,
    "cumsum": partial(_scan, kind="sum"),
    "cumprod": partial(_scan, kind="prod"),
    "logcumsumexp": partial(_scan, kind="logsumexp"),
    "cummax": _scan_with_positions("max", "argmax"),
    "cummin": _scan_with_positions("min", "argmin"),
}
