"""ATen operators of complex numbers, on buffers of real numbers with one more dim of two parts.

The index of a complex view has a symbol for the part: 0 is real, 1 imaginary. Views of complex
tensors are views of such buffers; a linear operator is applied to each part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sympy
import torch

from fullgraph.compiler.lowering.ir.builder import Call, broadcast_index
from fullgraph.compiler.lowering.ir.expressions import Expression
from fullgraph.compiler.lowering.ir.index import loop_variable, variables_of
from fullgraph.compiler.lowering.ir.loops import Sizes, View
from fullgraph.compiler.lowering.ir.operators import apply, cast, compare, constant
from fullgraph.compiler.lowering.ir.views import strided_index
from fullgraph.compiler.lowering.prims import words

PART = sympy.Symbol("part", integer=True, nonnegative=True)
Parts = tuple[Expression, Expression | None]
"""Real and imaginary part; None for a real number."""
LINEAR = words(
    """
    add sub neg sum cumsum clone where lift_fresh_copy cat flip index gather constant_pad_nd
    slice_scatter select_scatter diagonal_scatter index_put scatter empty
    """
)
"""Operators that compute each part of their result from that part of their operands."""


def part_of(view: View, part: int) -> View:
    """Return the view of the real parts (0) or the imaginary ones (1)."""
    index = tuple(one.xreplace({PART: sympy.Integer(part)}) for one in view.index)
    return View(view.buffer, view.sizes, view.dtype.to_real(), index)


def as_complex(view: View) -> View:
    """Return the complex view of a real one whose last dim has two elements."""
    last = {loop_variable("i", len(view.sizes) - 1): PART}
    index = tuple(one.xreplace(last) for one in view.index)
    return View(view.buffer, view.sizes[:-1], view.dtype.to_complex(), index)


def as_real(view: View) -> View:
    """Return the real view of a complex one, with one more dim."""
    last = {PART: loop_variable("i", len(view.sizes))}
    index = tuple(one.xreplace(last) for one in view.index)
    sizes = (*view.sizes, sympy.Integer(2))
    return View(view.buffer, sizes, view.dtype.to_real(), index)


def lower_linear(call: Call, lower: Callable[[Call], Any]) -> View:
    """Apply an operator to the real parts and to the imaginary parts of its operands."""
    result = call.result
    assert isinstance(result, torch.Tensor)
    example = torch.empty_like(result, dtype=result.dtype.to_real())
    made = []
    for part in (0, 1):
        arguments = {name: _select(call, one, part, name) for name, one in call.arguments.items()}
        made.append(lower(replace(call, arguments=arguments, result=example)))
    index = variables_of(call.sizes)
    return _write(call, (made[0].load(index), made[1].load(index)))


def _select(call: Call, value: object, part: int, name: str) -> object:
    """Return a part of an argument; a real operand has the imaginary part 0."""
    if name in ("alpha", "dim", "indices", "index", "condition"):
        return value
    if isinstance(value, list):
        return [_select(call, one, part, name) for one in value]
    if isinstance(value, View):
        if value.dtype.is_complex:
            return part_of(value, part)
        zero = constant(0, value.dtype)
        return call.builder.add_loop(f"{call.name}_zero", value.sizes, zero) if part else value
    if isinstance(value, complex):
        return value.imag if part else value.real
    is_operand = name in ("self", "other", "value") and isinstance(value, int | float)
    return 0 if part and is_operand else value


def _write(call: Call, parts: Parts) -> View:
    """Add a loop that writes both parts of each element."""
    dtype = call.dtype.to_real()
    real, imaginary = (constant(0, dtype) if one is None else cast(one, dtype) for one in parts)
    is_real = compare("eq", loop_variable("i", len(call.sizes)), sympy.Integer(0))
    body = apply("where", is_real, real, imaginary)
    sizes = (*call.sizes, sympy.Integer(2))
    strides = (*(2 * stride for stride in call.strides), sympy.Integer(1))
    return as_complex(call.builder.add_loop(call.name, sizes, body, strides=strides))


def _element(call: Call, operand: object, index: Sizes) -> Parts:
    """Return both parts of an operand's element, broadcast to the result's sizes."""
    dtype = call.dtype.to_real()
    if isinstance(operand, View):
        index = broadcast_index(operand.sizes, index, call.sizes)
        if operand.dtype.is_complex:
            real, imaginary = (part_of(operand, part).load(index) for part in (0, 1))
            return cast(real, dtype), cast(imaginary, dtype)
        return cast(operand.load(index), dtype), None
    if isinstance(operand, complex):
        return constant(operand.real, dtype), constant(operand.imag, dtype)
    return call.element(operand, index, dtype), None


def _elements(call: Call, *names: str) -> list[Parts]:
    """Return both parts of an element of each named operand."""
    index = variables_of(call.sizes)
    return [_element(call, call[name], index) for name in names]


def _lower_copy(call: Call) -> View:
    """Lower a conversion to a complex dtype, or to a real one, which drops the imaginary part."""
    if call.dtype.is_complex:
        return _write(call, *_elements(call, "self"))
    real = part_of(call.view("self"), 0)
    return call.pointwise(lambda index: cast(real.load(index), call.dtype))


def _lower_conjugate(call: Call) -> View:
    [(real, imaginary)] = _elements(call, "self")
    return _write(call, (real, imaginary and apply("neg", imaginary)))


def _lower_as_strided(call: Call) -> View:
    view = call.view("self")
    index = strided_index(call, call.builder.buffers[view.buffer], call.sizes, PART)
    return View(view.buffer, call.sizes, view.dtype, index)


def _lower_complex(call: Call) -> View:
    (real, _), (imaginary, _) = _elements(call, "real", "imag")
    return _write(call, (real, imaginary))


def _multiply(first: Expression | None, second: Expression | None) -> Expression | None:
    return apply("mul", first, second) if first and second else None


def _combine(operator: str, first: Expression | None, second: Expression | None) -> Any:
    return apply(operator, first, second) if first and second else first or second


def _lower_mul(call: Call) -> View:
    (a, b), (c, d) = _elements(call, "self", "other")
    real = _combine("sub", _multiply(a, c), _multiply(b, d))
    return _write(call, (real, _combine("add", _multiply(a, d), _multiply(b, c))))


def _lower_div(call: Call) -> View:
    (a, b), (c, d) = _elements(call, "self", "other")
    if d is not None:
        raise NotImplementedError("a complex divisor")
    return _write(call, (apply("div", a, c), b and apply("div", b, c)))


def _of_parts(operator: str, *order: int) -> Callable[[Call], View]:
    """Return the lowering of an operator whose real result is one of the operand's parts."""

    def lower(call: Call) -> View:
        parts = [part_of(call.view("self"), part) for part in order]
        return call.pointwise(lambda index: apply(operator, *(one.load(index) for one in parts)))

    return lower


COMPLEX: Mapping[str, Callable[[Call], View]] = {
    "view_as_real": lambda call: as_real(call.view("self")),
    "view_as_complex": lambda call: as_complex(call.view("self")),
    "_to_copy": _lower_copy,
    "full": lambda call: _write(call, *_elements(call, "fill_value")),
    **dict.fromkeys(("_conj", "conj_physical", "_conj_physical"), _lower_conjugate),
    "as_strided": _lower_as_strided,
    "complex": _lower_complex,
    "mul": _lower_mul,
    "div": _lower_div,
    "abs": _of_parts("hypot", 0, 1),
    "angle": _of_parts("atan2", 1, 0),
}
"""How each operator with a complex operand or result is lowered, beside views and linear ones."""


def complex_lowering(
    name: str, real: Mapping[str, Callable[[Call], Any]], views: Mapping[str, object]
) -> Callable[[Call], Any] | None:
    """Return how an operator with a complex operand or result is lowered; None if it is not.

    `real` are the lowerings for real operands, `views` those of views among them.
    """
    if name in COMPLEX:
        return COMPLEX[name]
    if name in LINEAR:
        return lambda call: lower_linear(call, real[name])
    return real[name] if name in views else None
