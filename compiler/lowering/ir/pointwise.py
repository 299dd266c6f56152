"""ATen operators that compute each element of their result from one element of each operand."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch

from fullgraph.compiler.lowering.ir.builder import Call
from fullgraph.compiler.lowering.ir.expressions import Expression
from fullgraph.compiler.lowering.ir.index import FloorDiv, Mod, variables_of
from fullgraph.compiler.lowering.ir.loops import Sizes, View
from fullgraph.compiler.lowering.ir.operators import (
    FLOAT_UNARY,
    SPECIAL_BINARY,
    SPECIAL_UNARY,
    UNARY,
    apply,
    cast,
    constant,
)

Lowering = Callable[[Call], View]
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer dtype of a size in bytes."""


def elementwise(operator: str, operands: int, dtype: torch.dtype | None = None) -> Lowering:
    """Return the lowering of an operator of the first arguments.

    It is computed in `dtype`, by default in the result's.
    """

    def lower(call: Call) -> View:
        return call.pointwise(
            lambda index: apply(operator, *_elements(call, index, operands, dtype or call.dtype))
        )

    return lower


unary, binary = (functools.partial(elementwise, operands=count) for count in (1, 2))
"""Lowerings of an operator of one or two operands, computed in the result's dtype."""


def _elements(call: Call, index: Sizes, operands: int, dtype: torch.dtype) -> list[Expression]:
    """Return the elements of the first operands."""
    return [call.element(call[name], index, dtype) for name in list(call.arguments)[:operands]]


def _comparison(operator: str) -> Lowering:
    """Return the lowering of a comparison, computed in the dtype that the operands promote to."""
    return lambda call: elementwise(operator, 2, _result_type(call))(call)


def _result_type(call: Call) -> torch.dtype:
    """Return the dtype to which torch promotes the first two operands."""
    values: list[Any] = []
    for operand in list(call.arguments.values())[:2]:
        if isinstance(operand, View):
            shape = (1,) * len(operand.sizes)
            values.append(torch.empty(shape, dtype=operand.dtype, device="meta"))
        elif isinstance(operand, sympy.Expr):
            values.append(1 if operand.is_integer else 1.0)
        else:
            values.append(operand)
    return torch.result_type(*values)


def _float_predicate(operator: str) -> Lowering:
    """Return the lowering of a predicate of one floating-point number; False for other dtypes."""

    def lower(call: Call) -> View:
        dtype = call.view("self").dtype
        if not dtype.is_floating_point and operator != "signbit":
            return call.pointwise(lambda index: constant(False, torch.bool))
        return elementwise(operator, 1, dtype)(call)

    return lower


def _unless_bool(operator: str) -> Lowering:
    """Return the lowering of an operator of one operand that leaves a bool as it is."""
    return lambda call: (_lower_copy if call.dtype == torch.bool else unary(operator))(call)


def _add(operator: str) -> Lowering:
    """Return the lowering of `self ± alpha · other`."""

    def lower(call: Call) -> View:
        def body(index: Sizes) -> Expression:
            first, second = _elements(call, index, 2, call.dtype)
            if call["alpha"] not in (None, 1):
                second = apply("mul", second, call.element(call["alpha"], index, call.dtype))
            return apply("or" if call.dtype == torch.bool else operator, first, second)

        return call.pointwise(body)

    return lower


def _lower_mul(call: Call) -> View:
    return binary("and" if call.dtype == torch.bool else "mul")(call)


def _lower_div(call: Call) -> View:
    operator = {None: "div", "floor": "floordiv", "trunc": "truncdiv"}[call["rounding_mode"]]
    return binary(operator)(call)


def _lower_pow(call: Call) -> View:
    base, exponent = call["self"], call["exponent"]
    if not isinstance(base, View) or not isinstance(exponent, int | float):
        return binary("pow")(call)

    def body(index: Sizes) -> Expression:
        value = call.element(base, index, call.dtype)
        if exponent == 1:
            return value
        if exponent == 2:
            return apply("mul", value, value)
        if exponent == 3:
            return apply("mul", apply("mul", value, value), value)
        if call.dtype.is_floating_point and exponent in (0.5, -0.5, -1):
            return apply({0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}[exponent], value)
        return apply("pow", value, call.element(exponent, index, call.dtype))

    return call.pointwise(body)


def _lower_where(call: Call) -> View:
    def body(index: Sizes) -> Expression:
        condition = call.element(call["condition"], index, torch.bool)
        values = [call.element(call[name], index, call.dtype) for name in ("self", "other")]
        return apply("where", condition, *values)

    return call.pointwise(body)


def _lower_relu(call: Call) -> View:
    zero = constant(0, call.dtype)
    return call.pointwise(
        lambda index: apply("maximum", call.element(call["self"], index, call.dtype), zero)
    )


def _lower_copy(call: Call) -> View:
    view = next(iter(call.arguments.values()))
    return call.pointwise(lambda index: call.element(view, index, view.dtype))


def _lower_full(call: Call) -> View:
    value = call["fill_value"] if "fill_value" in call.arguments else call["s"]
    return call.pointwise(lambda index: call.element(value, index, call.dtype))


def _lower_empty(call: Call) -> View:
    return call.pointwise(lambda index: constant(0, call.dtype))


def _lower_round(call: Call) -> View:
    if call["decimals"]:
        raise NotImplementedError("decimals")
    return unary("round")(call)


def _lower_extreme(operator: str) -> Callable[[Call], View]:
    """Return the lowering of fmax or fmin, which return a NaN only for two."""

    def lower(call: Call) -> View:
        def body(index: Sizes) -> Expression:
            first, second = _elements(call, index, 2, call.dtype)
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


_UNARY = sorted(FLOAT_UNARY | UNARY - {"not", "sign", "round", "abs"})
_BINARY = {
    **{name: name for name in ("maximum", "minimum", "fmod", "remainder")},
    **{name: name for name in ("atan2", "hypot", "copysign")},
    **{f"bitwise_{name}": name for name in ("and", "or", "xor")},
    **dict.fromkeys(("bitwise_left_shift", "__lshift__"), "shl"),
    **dict.fromkeys(("bitwise_right_shift", "__rshift__"), "shr"),
}

POINTWISE: Mapping[str, Callable[[Call], View | tuple[View, ...]]] = {
    **{name: unary(name) for name in _UNARY},
    **{name: _comparison(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: binary(operator) for name, operator in _BINARY.items()},
    **{f"logical_{name}": elementwise(name, 2, torch.bool) for name in ("and", "or", "xor")},
    **{name: _float_predicate(name) for name in ("isnan", "isinf", "signbit")},
    **dict.fromkeys(("clone", "_to_copy", "lift_fresh_copy"), _lower_copy),
    "convert_element_type": _lower_copy,
    **dict.fromkeys(("full", "scalar_tensor"), _lower_full),
    **dict.fromkeys(("empty", "empty_strided", "empty_permuted"), _lower_empty),
    "add": _add("add"),
    "sub": _add("sub"),
    "mul": _lower_mul,
    **dict.fromkeys(("div", "true_divide"), _lower_div),  # AOTAutograd divides sizes by the latter
    "pow": _lower_pow,
    "where": _lower_where,
    "relu": _lower_relu,
    "bitwise_not": unary("not"),
    "logical_not": elementwise("not", 1, torch.bool),
    "sign": _unless_bool("sign"),
    "abs": _unless_bool("abs"),
    "round": _lower_round,
    **{_aten_name(name): unary(name) for name in SPECIAL_UNARY - {"mantissa", "exponent"}},
    **{_aten_name(name): binary(name) for name in SPECIAL_BINARY},
    "nextafter": _lower_nextafter,
    "fmax": _lower_extreme("maximum"),
    "fmin": _lower_extreme("minimum"),
    "angle": _lower_angle,
    "frexp": _lower_frexp,
}
