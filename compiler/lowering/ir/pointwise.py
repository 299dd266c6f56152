"""ATen operators that compute each element of their result from one element of each operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import sympy
import torch

from fullgraph.compiler.lowering.ir.builder import Call
from fullgraph.compiler.lowering.ir.expressions import Expression
from fullgraph.compiler.lowering.ir.loops import View
from fullgraph.compiler.lowering.ir.operators import FLOAT_UNARY, UNARY, apply, cast, constant

Lowering = Callable[[Call], View]


def result_type(call: Call, *names: str) -> torch.dtype:
    """Return the dtype to which torch promotes the named operands."""
    values: list[Any] = []
    for name in names:
        operand = call[name]
        if isinstance(operand, View):
            shape = (1,) * len(operand.sizes)
            values.append(torch.empty(shape, dtype=operand.dtype, device="meta"))
        else:
            values.append(1 if isinstance(operand, sympy.Expr) else operand)
    if len(values) == 1:
        values *= 2
    return torch.result_type(*values)


def unary(operator: str) -> Lowering:
    """Return the lowering of an operator of one operand, computed in the result's dtype."""

    def lower(call: Call) -> View:
        operand = next(iter(call.arguments.values()))
        return call.pointwise(
            lambda index: apply(operator, call.element(operand, index, call.dtype))
        )

    return lower


def binary(operator: str) -> Lowering:
    """Return the lowering of an operator of two operands, computed in the result's dtype."""

    def lower(call: Call) -> View:
        return call.pointwise(lambda index: apply(operator, *_operands(call, index, call.dtype)))

    return lower


def _operands(call: Call, index: tuple[sympy.Expr, ...], dtype: torch.dtype) -> list[Expression]:
    """Return the elements of the two operands."""
    first, second = list(call.arguments)[:2]
    return [call.element(call[name], index, dtype) for name in (first, second)]


def predicate(operator: str) -> Lowering:
    """Return the lowering of a comparison, computed in the dtype that the operands promote to."""

    def lower(call: Call) -> View:
        dtype = result_type(call, *list(call.arguments)[:2])
        return call.pointwise(lambda index: apply(operator, *_operands(call, index, dtype)))

    return lower


def logical(operator: str) -> Lowering:
    """Return the lowering of a logical operator: the operands are converted to bool."""

    def lower(call: Call) -> View:
        return call.pointwise(lambda index: apply(operator, *_operands(call, index, torch.bool)))

    return lower


def float_test(operator: str) -> Lowering:
    """Return the lowering of a predicate of one floating-point number; False for other dtypes."""

    def lower(call: Call) -> View:
        view = call.view("self")
        if not view.dtype.is_floating_point and operator != "signbit":
            return call.pointwise(lambda index: constant(False, torch.bool))
        return call.pointwise(lambda index: apply(operator, call.element(view, index, view.dtype)))

    return lower


def _lower_add(call: Call) -> View:
    return _add(call, "add", "other", "alpha")


def _lower_sub(call: Call) -> View:
    return _add(call, "sub", "other", "alpha")


def _add(call: Call, operator: str, other: str, alpha: str) -> View:
    """Lower `self ± alpha · other`."""

    def body(index: tuple[sympy.Expr, ...]) -> Expression:
        first, second = _operands(call, index, call.dtype)
        if call[alpha] not in (None, 1):
            second = apply("mul", second, call.element(call[alpha], index, call.dtype))
        if call.dtype == torch.bool:
            return apply("or", first, second)
        return apply(operator, first, second)

    return call.pointwise(body)


def _lower_mul(call: Call) -> View:
    return binary("and" if call.dtype == torch.bool else "mul")(call)


def _lower_div(call: Call) -> View:
    operator = {None: "div", "floor": "floordiv", "trunc": "truncdiv"}[call["rounding_mode"]]
    return binary(operator)(call)


def _lower_pow(call: Call) -> View:
    exponent = call["exponent"]
    base = call["self"]
    if not isinstance(base, View) or not isinstance(exponent, int | float):
        return binary("pow")(call)

    def body(index: tuple[sympy.Expr, ...]) -> Expression:
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
    def body(index: tuple[sympy.Expr, ...]) -> Expression:
        condition = call.element(call["condition"], index, torch.bool)
        values = [call.element(call[name], index, call.dtype) for name in ("self", "other")]
        return apply("where", condition, *values)

    return call.pointwise(body)


def _lower_clamp(call: Call) -> View:
    def body(index: tuple[sympy.Expr, ...]) -> Expression:
        value = call.element(call["self"], index, call.dtype)
        if call["min"] is not None:
            value = apply("maximum", value, call.element(call["min"], index, call.dtype))
        if call["max"] is not None:
            value = apply("minimum", value, call.element(call["max"], index, call.dtype))
        return value

    return call.pointwise(body)


def _lower_relu(call: Call) -> View:
    zero = constant(0, call.dtype)
    return call.pointwise(
        lambda index: apply("maximum", call.element(call["self"], index, call.dtype), zero)
    )


def _lower_copy(call: Call) -> View:
    return call.pointwise(lambda index: call.element(call["self"], index, call.view("self").dtype))


def _lower_copy_source(call: Call) -> View:
    return call.pointwise(lambda index: call.element(call["src"], index, call.dtype))


def _lower_full(call: Call) -> View:
    value = call["fill_value"] if "fill_value" in call.arguments else call["s"]
    if value is None:
        value = call["value"]
    return call.pointwise(lambda index: call.element(value, index, call.dtype))


def _lower_zeros(call: Call) -> View:
    return call.pointwise(lambda index: constant(0, call.dtype))


def _lower_ones(call: Call) -> View:
    return call.pointwise(lambda index: constant(1, call.dtype))


def _lower_bitwise_not(call: Call) -> View:
    return unary("not")(call)


def _lower_logical_not(call: Call) -> View:
    return call.pointwise(lambda index: apply("not", call.element(call["self"], index, torch.bool)))


def _lower_threshold_backward(call: Call) -> View:
    def body(index: tuple[sympy.Expr, ...]) -> Expression:
        value = call.element(call["self"], index, call.dtype)
        condition = apply("le", value, call.element(call["threshold"], index, call.dtype))
        gradient = call.element(call["grad_output"], index, call.dtype)
        return apply("where", condition, constant(0, call.dtype), gradient)

    return call.pointwise(body)


def _lower_sign(call: Call) -> View:
    if call.dtype == torch.bool:
        return _lower_copy(call)
    return unary("sign")(call)


def _lower_round(call: Call) -> View:
    if call["decimals"]:
        raise NotImplementedError("decimals")
    return unary("round")(call)


def _lower_abs(call: Call) -> View:
    return _lower_copy(call) if call.dtype == torch.bool else unary("abs")(call)


def _lower_convert(call: Call) -> View:
    view = call.view("self") if "self" in call.arguments else call.view("a")
    return call.pointwise(lambda index: cast(call.element(view, index, view.dtype), call.dtype))


_SAME_NAME = sorted(FLOAT_UNARY | UNARY - {"not", "sign", "round", "abs"})
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_BINARY = {
    "maximum": "maximum",
    "minimum": "minimum",
    "fmod": "fmod",
    "remainder": "remainder",
    "atan2": "atan2",
    "hypot": "hypot",
    "copysign": "copysign",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_left_shift": "shl",
    "bitwise_right_shift": "shr",
    "__lshift__": "shl",
    "__rshift__": "shr",
    "floor_divide": "floordiv",
}

POINTWISE: Mapping[str, Lowering] = MappingProxyType(
    {
        **{name: unary(name) for name in _SAME_NAME},
        **{name: predicate(name) for name in _COMPARISONS},
        **{name: binary(operator) for name, operator in _BINARY.items()},
        **{f"logical_{operator}": logical(operator) for operator in ("and", "or", "xor")},
        **{name: float_test(name) for name in ("isnan", "isinf", "signbit")},
        **dict.fromkeys(("clone", "_to_copy", "lift_fresh_copy", "contiguous"), _lower_copy),
        **dict.fromkeys(("full", "full_like", "new_full", "scalar_tensor", "fill"), _lower_full),
        **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), _lower_zeros),
        **dict.fromkeys(("ones", "ones_like", "new_ones"), _lower_ones),
        **dict.fromkeys(("empty", "empty_like", "new_empty", "empty_strided"), _lower_zeros),
        "new_empty_strided": _lower_zeros,
        "empty_permuted": _lower_zeros,
        "convert_element_type": _lower_convert,
        "copy": _lower_copy_source,
        "add": _lower_add,
        "sub": _lower_sub,
        "mul": _lower_mul,
        "div": _lower_div,
        "pow": _lower_pow,
        "where": _lower_where,
        "clamp": _lower_clamp,
        "clamp_min": _lower_clamp,
        "clamp_max": _lower_clamp,
        "relu": _lower_relu,
        "threshold_backward": _lower_threshold_backward,
        "bitwise_not": _lower_bitwise_not,
        "logical_not": _lower_logical_not,
        "sign": _lower_sign,
        "round": _lower_round,
        "abs": _lower_abs,
    }
)
"""How each operator is lowered, by its name without namespace and overload."""
