"""Scalar operators and index arithmetic as C++ text."""

from __future__ import annotations

import math

import torch

from fullgraph.compiler.lowering.codegen import INFIX, IndexSyntax
from fullgraph.compiler.lowering.ir import DTYPES, SPECIAL

_NAMES = {"float32": "float", "float64": "double", "bfloat16": "bfloat16", "float16": "float16"}
STORAGE = {
    dtype: _NAMES.get(name, "bool" if name == "bool" else f"{name}_t")
    for dtype in DTYPES
    for name in [str(dtype).removeprefix("torch.")]
}
"""C++ type of an element in memory."""

CPP_INDEX = IndexSyntax(
    "{}L", "({0} / {1})", "({0} % {1})", "floor_div({0}, {1})", "floor_mod({0}, {1})",
    "({0} > {1} ? {0} : {1})", "({0} < {1} ? {0} : {1})",
)  # fmt: skip
"""Index arithmetic of type int64_t."""
_FORMATS = {
    "where": "{0} ? {1} : {2}",
    "maximum": "maximum<{type}>({0}, {1})",
    "minimum": "minimum<{type}>({0}, {1})",
    "sign": "sign<{type}>({0})",
    "neg": "({type})-{0}",
    "isnan": "{0} != {0}",
    "isinf": "__builtin_fabs{f}({0}) == ({type})__builtin_inf()",
    "sigmoid": "({type})1 / (({type})1 + exp{f}(-{0}))",
    "reciprocal": "({type})1 / {0}",
    "rsqrt": "({type})1 / __builtin_sqrt{f}({0})",
}
_FLOAT_FORMATS = {
    **_FORMATS,
    "abs": "__builtin_fabs{f}({0})",
    "signbit": "(__builtin_copysign{f}(1, {0}) < 0)",  # `signbit` crashes g++ 12 with AVX-512
    "round": "__builtin_rint{f}({0})",
    "copysign": "__builtin_copysign{f}({0}, {1})",
    **{name: f"__builtin_{name}{{f}}({{0}})" for name in ("floor", "ceil", "trunc", "sqrt")},
}
_INTEGER_FORMATS = {
    **_FORMATS,
    "abs": "({type})({0} < 0 ? -{0} : {0})",
    "signbit": "{0} < 0",
    "pow": "({type})integer_pow({0}, {1})",
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), "{0}"),
}
"""Operators of numbers of a type; `f` is the suffix of the C library's functions of float."""


def compute_type(dtype: torch.dtype) -> str:
    """Return the C++ type in which values of a dtype are computed."""
    return "float" if dtype in (torch.bfloat16, torch.float16) else STORAGE[dtype]


def convert(value: str, source: torch.dtype, target: torch.dtype) -> str:
    """Return a value converted to another dtype."""
    if target == torch.bool:
        return f"({value} != 0)"
    if target == torch.bfloat16:
        return f"to_float(to_bfloat16((float){value}))"
    if target == torch.float16:
        return f"(float)(float16){value}"
    if source.is_floating_point and target == torch.uint8:
        return f"(uint8_t)(int64_t){value}"
    return f"({compute_type(target)}){value}"


def load_text(value: str, dtype: torch.dtype) -> str:
    """Return an element of memory as a value to compute with."""
    if dtype == torch.bfloat16:
        return f"to_float({value})"
    return f"(float){value}" if dtype == torch.float16 else value


def store_text(value: str, dtype: torch.dtype) -> str:
    """Return a computed value as an element of memory."""
    if dtype == torch.bfloat16:
        return f"to_bfloat16({value})"
    return f"(float16){value}" if dtype == torch.float16 else value


def number_text(value: float, dtype: torch.dtype) -> str:
    """Return a Python number as a constant."""
    type_ = compute_type(dtype)
    if dtype == torch.bool:
        return "true" if value else "false"
    if not dtype.is_floating_point:
        return f"({type_})({int(value) + 1}L - 1)" if value == -(2**63) else f"({type_}){value}L"
    if math.isnan(value):
        return f'({type_})__builtin_nan("")'
    if math.isinf(value):
        return f"({type_}){'-' if value < 0 else ''}__builtin_inf()"
    return f"({type_}){value!r}"


def operator_text(operator: str, args: list[str], source: torch.dtype, dtype: torch.dtype) -> str:
    """Return a scalar operator applied to values of the dtype `source`."""
    type_ = compute_type(source)
    f = "f" if type_ == "float" else ""
    is_float = source.is_floating_point
    formats = _FLOAT_FORMATS if is_float else _INTEGER_FORMATS
    a = args[0]
    if operator == "cast":
        return convert(a, source, dtype)
    if operator == "bitcast":
        bits = f"bits_of<{STORAGE[dtype]}>(({STORAGE[source]}){store_text(a, source)})"
        return load_text(bits, dtype)
    if operator in SPECIAL:
        return f"({compute_type(dtype)})special::{operator}({', '.join(args)})"
    if operator in INFIX:
        text = f"{a} {INFIX[operator]} {args[1]}"
        is_small = compute_type(dtype) in ("int8_t", "uint8_t", "int16_t")
        return f"({compute_type(dtype)})({text})" if is_small else text
    if operator in formats:
        return formats[operator].format(*args, type=type_, f=f)
    if operator in ("floordiv", "truncdiv", "remainder", "fmod"):
        name = {"floordiv": "floor_div", "truncdiv": "trunc_div", "remainder": "floor_mod"}
        wide = type_ if is_float else "int64_t"
        values = ", ".join(f"({wide}){arg}" for arg in args)
        return f"({type_}){name.get(operator, 'trunc_mod')}({values})"
    if operator == "not":
        return f"!{a}" if dtype == torch.bool else f"({type_})~{a}"
    if operator in ("shl", "shr"):
        return _shift_text(operator, args, source)
    return f"{operator}{f}({', '.join(args)})"


def _shift_text(operator: str, args: list[str], dtype: torch.dtype) -> str:
    """Return a shift; one by more bits than there are gives 0 or the sign, as in eager."""
    value, count = args
    type_, bits = compute_type(dtype), 8 * dtype.itemsize
    is_valid = f"{count} >= 0 && {count} < {bits}"
    if operator == "shl":
        return f"({is_valid}) ? ({type_})((int64_t){value} << {count}) : ({type_})0"
    return f"({is_valid}) ? ({type_})({value} >> {count}) : ({type_})({value} >> {bits - 1})"
