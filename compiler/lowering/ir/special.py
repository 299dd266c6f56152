"""ATen operators of special functions, and others that few graphs have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import sympy
import torch

from fullgraph.compiler.lowering.ir.builder import Call
from fullgraph.compiler.lowering.ir.expressions import Expression
from fullgraph.compiler.lowering.ir.index import FloorDiv, Mod, variables_of
from fullgraph.compiler.lowering.ir.loops import Sizes, View
from fullgraph.compiler.lowering.ir.operators import (
    SPECIAL_BINARY,
    SPECIAL_UNARY,
    apply,
    cast,
    constant,
)
from fullgraph.compiler.lowering.ir.pointwise import binary, unary

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer dtype of a size in bytes."""


def _lower_extreme(operator: str) -> Callable[[Call], View]:
    """Return the lowering of fmax or fmin, which return a NaN only for two."""

    def lower(call: Call) -> View:
        def body(index: Sizes) -> Expression:
            first, second = (
                call.element(call[name], index, call.dtype) for name in ("self", "other")
            )
            value = apply(operator, first, second)
            if call.dtype.is_floating_point:
                value = apply("where", apply("isnan", second), first, value)
                value = apply("where", apply("isnan", first), second, value)
            return value

        return call.pointwise(body)

    return lower


def _lower_angle(call: Call) -> View:
    def body(index: Sizes) -> Expression:
        value = call.element(call["self"], index, call.dtype)
        zero, half = constant(0, call.dtype), constant(math.pi, call.dtype)
        result = apply("where", apply("lt", value, zero), half, zero)
        return apply("where", apply("isnan", value), value, result)

    return call.pointwise(body)


def _lower_nextafter(call: Call) -> View:
    if call.dtype not in (torch.float32, torch.float64):
        raise NotImplementedError(f"the dtype {call.dtype}")
    return binary("nextafter")(call)


def _lower_frexp(call: Call) -> tuple[View, View]:
    view = call.view("self")
    value = view.load(variables_of(view.sizes))
    return (
        call.pointwise(lambda index: apply("mantissa", value)),
        call.builder.add_loop(call.name, view.sizes, apply("exponent", value, dtype=torch.int32)),
    )


def lower_bits(call: Call) -> View:
    """Lower a view of bits as a copy; elements of another size split up or combine."""
    view = call.view("self")
    if view.dtype.is_complex or call.dtype.is_complex:
        raise NotImplementedError("bits of complex numbers")
    old, new = view.dtype.itemsize, call.dtype.itemsize
    bits, target = _BITS[old], _BITS[new]

    def body(index: Sizes) -> Expression:
        if old == new:
            return apply("bitcast", view.load(index), dtype=call.dtype)
        if old > new:  # a part of one element
            parts = sympy.Integer(old // new)
            whole = apply(
                "bitcast", view.load((*index[:-1], FloorDiv(index[-1], parts))), dtype=bits
            )
            position = call.element(8 * new * Mod(index[-1], parts), index, bits)
            part = cast(apply("shr", whole, position), target)
            return apply("bitcast", part, dtype=call.dtype)
        total: Expression = constant(0, target)
        for number in range(new // old):
            element = view.load((*index[:-1], index[-1] * (new // old) + number))
            part = cast(apply("bitcast", element, dtype=bits), target)
            part = apply("and", part, constant((1 << 8 * old) - 1, target))
            total = apply("or", total, apply("shl", part, constant(8 * old * number, target)))
        return apply("bitcast", total, dtype=call.dtype)

    return call.pointwise(body)


def _aten_name(operator: str) -> str:
    """Return ATen's name of a special function."""
    return operator if hasattr(torch.ops.aten, operator) else f"special_{operator}"


SPECIAL_FUNCTIONS: Mapping[str, Callable[[Call], View | tuple[View, ...]]] = MappingProxyType(
    {
        **{_aten_name(name): unary(name) for name in SPECIAL_UNARY - {"mantissa", "exponent"}},
        **{_aten_name(name): binary(name) for name in SPECIAL_BINARY},
        "nextafter": _lower_nextafter,
        "fmax": _lower_extreme("maximum"),
        "fmin": _lower_extreme("minimum"),
        "angle": _lower_angle,
        "frexp": _lower_frexp,
    }
)
"""How each operator is lowered, by its name without namespace and overload."""
