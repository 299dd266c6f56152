"""ATen operators that accumulate along a dim: cumsum and its like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from fullgraph.compiler.lowering.ir.builder import Call
from fullgraph.compiler.lowering.ir.index import variables_of
from fullgraph.compiler.lowering.ir.loops import Scan, ScanKind, View
from fullgraph.compiler.lowering.ir.operators import cast, constant


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


def _lower_scan(kind: ScanKind) -> Callable[[Call], View]:
    return lambda call: _scan(call, kind)


def _lower_extreme(kind: ScanKind, arg: ScanKind) -> Callable[[Call], tuple[View, View]]:
    """Return the lowering of cummax or cummin: values and their positions."""
    return lambda call: (_scan(call, kind), _scan(call, arg, torch.int64))


SCANS: Mapping[str, Callable[[Call], View | tuple[View, ...]]] = MappingProxyType(
    {
        "cumsum": _lower_scan("sum"),
        "cumprod": _lower_scan("prod"),
        "logcumsumexp": _lower_scan("logsumexp"),
        "cummax": _lower_extreme("max", "argmax"),
        "cummin": _lower_extreme("min", "argmin"),
    }
)
"""How each operator is lowered, by its name without namespace and overload."""
