"""Scalar operators and index arithmetic as Triton text."""

from __future__ import annotations

import math

import torch

from fullgraph.compiler.lowering.codegen import INFIX, IndexSyntax
from fullgraph.compiler.lowering.ir import DTYPES

TYPES = {
    dtype: "tl.int1" if dtype == torch.bool else f"tl.{str(dtype).removeprefix('torch.')}"
    for dtype in DTYPES
}
"""Triton's type of each dtype."""
TRITON_INDEX = IndexSyntax(
    "{}", "({0} // {1})", "({0} % {1})", "device.floordiv({0}, {1})", "device.remainder({0}, {1})",
    "tl.maximum({0}, {1})", "tl.minimum({0}, {1})",
    "tl.where({0}, {1}, {2})", ("&", "|", "~"),
)  # fmt: skip
"""Index arithmetic; Triton's own operators round to zero."""
_OF_LANGUAGE = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil")
"""Operators that Triton's language has; the others of floating-point numbers are libdevice's."""
_FORMATS = {
    "neg": "-{0}",
    "abs": "tl.abs({0})",
    "isnan": "{0} != {0}",
    "isinf": 'tl.abs({0}) == float("inf")',
    "sigmoid": "1 / (1 + tl.exp(-{0}))",
    "reciprocal": "1 / {0}",
    "round": "device.libdevice.rint({0})",
}
_OF_DEVICE = (
    "maximum", "minimum", "sign", "floordiv", "truncdiv", "remainder", "shl", "shr", "signbit",
)  # fmt: skip
"""Operators that `triton.device` has as functions."""


def compute_type(dtype: torch.dtype) -> str:
    """Return the type in which values of a dtype are computed."""
    return "tl.float32" if dtype in (torch.bfloat16, torch.float16) else TYPES[dtype]


def convert(value: str, source: torch.dtype, target: torch.dtype) -> str:
    """Return a value converted to another dtype."""
    if target == torch.bool:
        return f"({value} != 0)"
    if target in (torch.bfloat16, torch.float16):
        return f"device.to_{str(target).removeprefix('torch.')}({value}.to(tl.float32))"
    if source.is_floating_point and target == torch.uint8:
        return f"{value}.to(tl.int64).to(tl.uint8)"
    return f"{value}.to({TYPES[target]})"


def literal(value: float) -> str:
    """Return a Python number as text."""
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def number_text(value: float, dtype: torch.dtype) -> str:
    """Return a Python number as a tile of one element."""
    return f"tl.full([1], {literal(value)}, {compute_type(dtype)})"


def operator_text(operator: str, args: list[str], source: torch.dtype, dtype: torch.dtype) -> str:
    """Return a scalar operator applied to values of the dtype `source`."""
    first, is_float, is_bool = args[0], source.is_floating_point, source == torch.bool
    if operator == "cast":
        return convert(first, source, dtype)
    if operator == "where":
        return f"tl.where({', '.join(args)})"
    if is_bool and operator not in ("and", "or", "xor", "not"):  # True is -1 as a number of one bit
        args = [f"{arg}.to(tl.int32)" for arg in args]
        return convert(operator_text(operator, args, torch.int32, torch.int32), source, dtype)
    if operator in INFIX:
        return f"{first} {INFIX[operator]} {args[1]}"
    if operator == "not":
        return f"{first} == 0" if is_bool else f"~{first}"
    if operator in ("floor", "ceil", "trunc", "round") and not is_float:
        return first
    if operator in _FORMATS:
        return _FORMATS[operator].format(first)
    if operator in ("fmod", "pow") and not is_float:
        return f"device.integer_{operator}({', '.join(args)})"
    if operator in _OF_DEVICE:
        kind = "float_" if is_float and operator in ("floordiv", "truncdiv", "remainder") else ""
        return f"device.{kind}{operator}({', '.join(args)})"
    if operator in _OF_LANGUAGE:
        return f"tl.{operator}({first})"
    return f"device.libdevice.{operator}({', '.join(args)})"
