"""ATen operators that reduce dims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import sympy
import torch

from fullgraph.compiler.lowering.ir.builder import Call, element_count
from fullgraph.compiler.lowering.ir.expressions import Expression, IndexValue
from fullgraph.compiler.lowering.ir.index import variables_of
from fullgraph.compiler.lowering.ir.loops import ReductionKind, Sizes, View
from fullgraph.compiler.lowering.ir.operators import apply, cast, constant
from fullgraph.compiler.lowering.ir.views import reshape

Body = Callable[[Sizes, Sizes], Expression]


def reduce_dims(
    call: Call,
    view: View,
    dims: tuple[int, ...],
    kind: ReductionKind,
    dtype: torch.dtype,
    body: Body | None = None,
    result: torch.dtype | None = None,
) -> View:
    """Add a reduction over dims of a view; the result keeps those dims with size 1.

    `body(index, kept index)` is the element to reduce, of the dtype `dtype`; by default the view's.
    """
    kept = [dim for dim in range(len(view.sizes)) if dim not in dims]
    kept_sizes, reduced_sizes = (tuple(view.sizes[d] for d in part) for part in (kept, dims))
    variables = dict(zip(kept, variables_of(kept_sizes), strict=True))
    variables.update(zip(dims, variables_of(reduced_sizes, "r"), strict=True))
    index = tuple(variables[dim] for dim in range(len(view.sizes)))
    with_kept_dims = tuple(
        sympy.Integer(0) if dim in dims else variables[dim] for dim in range(len(view.sizes))
    )
    value = body(index, with_kept_dims) if body else cast(view.load(index), dtype)
    if not dims:
        is_position = kind in ("argmax", "argmin")
        value = constant(0, torch.int64) if is_position else value
        return call.builder.add_loop(call.name, kept_sizes, cast(value, result or dtype))
    made = call.builder.add_loop(
        call.name,
        kept_sizes,
        value,
        reduction=kind,
        reduced=reduced_sizes,
        dtype=result or dtype,
    )
    sizes = tuple(sympy.Integer(1) if dim in dims else size for dim, size in enumerate(view.sizes))
    return reshape(made, sizes)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which elements of a dtype are accumulated."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def finish(call: Call, view: View, sizes: Sizes | None = None) -> View:
    """Return the result of a reduction with the call's sizes and dtype."""
    view = reshape(view, call.sizes if sizes is None else sizes)
    if view.dtype == call.dtype:
        return view
    return call.pointwise(lambda index: call.element(view, index, view.dtype))


def _lower_reduction(kind: ReductionKind) -> Callable[[Call], View]:
    """Return the lowering of a reduction that accumulates in its result's dtype."""

    def lower(call: Call) -> View:
        view = call.view("self")
        dims = call.dims("dim", len(view.sizes))
        dtype = torch.bool if kind in ("any", "all") else accumulator(call.dtype)
        return finish(call, reduce_dims(call, view, dims, kind, dtype))

    return lower


def _lower_mean(call: Call) -> View:
    view = call.view("self")
    dims = call.dims("dim", len(view.sizes))
    return finish(call, _mean(call, view, dims, accumulator(call.dtype)))


def _mean(call: Call, view: View, dims: tuple[int, ...], dtype: torch.dtype) -> View:
    """Return the mean over dims, with the reduced dims of size 1."""
    total = reduce_dims(call, view, dims, "sum", dtype)
    count = element_count([view.sizes[dim] for dim in dims])
    return _divide(call, total, IndexValue(torch.int64, count))


def _divide(call: Call, total: View, count: Expression) -> View:
    """Return a view's elements divided by a number."""
    value = apply("div", total.load(variables_of(total.sizes)), cast(count, total.dtype))
    return call.builder.add_loop(call.name, total.sizes, value)


def _lower_variance(call: Call, *, is_std: bool = False) -> View:
    return _variance(call, is_std)[0]


def _lower_variance_and_mean(call: Call) -> tuple[View, View]:
    return _variance(call, False)


def _variance(call: Call, is_std: bool) -> tuple[View, View]:
    """Return variance and mean over dims: two passes, as eager is accurate."""
    view = call.view("self")
    dims = call.dims("dim", len(view.sizes))
    dtype = accumulator(call.dtype)
    mean = _mean(call, view, dims, dtype)

    def squared(index: Sizes, kept: Sizes) -> Expression:
        difference = apply("sub", cast(view.load(index), dtype), mean.load(kept))
        return apply("mul", difference, difference)

    total = reduce_dims(call, view, dims, "sum", dtype, squared)
    count = IndexValue(torch.int64, element_count([view.sizes[dim] for dim in dims]))
    correction = call["correction"]
    if "unbiased" in call.arguments:
        correction = 1 if call["unbiased"] else 0
    degrees = apply(
        "maximum",
        apply("sub", cast(count, dtype), constant(1 if correction is None else correction, dtype)),
        constant(0, dtype),
    )
    variance = _divide(call, total, degrees)
    if is_std:
        root = apply("sqrt", variance.load(variables_of(variance.sizes)))
        variance = call.builder.add_loop(call.name, variance.sizes, root)
    return finish(call, variance), finish(call, mean)


def _lower_arg(kind: ReductionKind) -> Callable[[Call], View]:
    """Return the lowering of argmax or argmin."""

    def lower(call: Call) -> View:
        view = call.view("self")
        if call["dim"] is None:
            view = reshape(view, (element_count(view.sizes),))
        dims = call.dims("dim", len(view.sizes))
        made = reduce_dims(call, view, dims, kind, view.dtype, result=torch.int64)
        return reshape(made, call.sizes)

    return lower


def _lower_extreme(kind: ReductionKind, arg: ReductionKind) -> Callable[[Call], tuple[View, View]]:
    """Return the lowering of `max(dim)` or `min(dim)`: values and their positions."""

    def lower(call: Call) -> tuple[View, View]:
        view = call.view("self")
        dims = (call.dim("dim", len(view.sizes)),) if view.sizes else ()
        values = reduce_dims(call, view, dims, kind, view.dtype)
        positions = reduce_dims(call, view, dims, arg, view.dtype, result=torch.int64)
        return reshape(values, call.sizes), reshape(positions, call.sizes)

    return lower


def _lower_max(call: Call) -> View | tuple[View, View]:
    if "dim" in call.arguments:
        return _lower_extreme("max", "argmax")(call)
    return _lower_reduction("max")(call)


def _lower_min(call: Call) -> View | tuple[View, View]:
    if "dim" in call.arguments:
        return _lower_extreme("min", "argmin")(call)
    return _lower_reduction("min")(call)


REDUCTIONS: Mapping[str, Callable[[Call], View | tuple[View, ...]]] = MappingProxyType(
    {
        "sum": _lower_reduction("sum"),
        "prod": _lower_reduction("prod"),
        "amax": _lower_reduction("max"),
        "amin": _lower_reduction("min"),
        "any": _lower_reduction("any"),
        "all": _lower_reduction("all"),
        "mean": _lower_mean,
        "var": _lower_variance,
        "std": lambda call: _lower_variance(call, is_std=True),
        "var_mean": _lower_variance_and_mean,
        "argmax": _lower_arg("argmax"),
        "argmin": _lower_arg("argmin"),
        "max": _lower_max,
        "min": _lower_min,
    }
)
"""How each operator is lowered, by its name without namespace and overload."""
