"""Python number read from a tensor, and type promotion of the 0-d tensor in its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from fullgraph.compiler.facts import TensorSummary
from fullgraph.rewrites.analysis import NotApplicable

NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32)
"""Integer dtypes in which arithmetic may overflow where Python's does not."""
HALF = (torch.float16, torch.bfloat16)
CASTS = {
    torch.float64: "double",
    torch.float32: "float",
    torch.float16: "half",
    torch.bfloat16: "bfloat16",
    torch.int64: "long",
    torch.int32: "int",
    torch.bool: "bool",
}
"""For each dtype the method that converts a tensor to it."""


SIZE = (
    "a size depends on it: keep the full size and mask what lies beyond, or pass the size as a "
    "Python number"
)

NEEDS = "`{}` may need a number: pass it in as a Python number beside the tensor"
LOOPS = (
    "how often a loop runs depends on it: loop as often as a Python number says, or compute all "
    "iterations at once"
)


@dataclass(frozen=True)
class Number:
    """A Python number, with the dtype of the 0-d tensor that replaces it."""

    kind: type[int] | type[float] | type[bool]
    """Python type of the number."""
    dtype: torch.dtype
    owns_memory: bool = True
    """Whether the tensor shares memory with no other tensor."""
    may_be_plain: bool = False
    """Whether the expression may also be a Python number, so that its uses must accept both."""
    is_computed: bool = False
    """Whether arithmetic that Python did in float64 is now done in the tensor's dtype."""
    is_int_or_float: bool = False
    """Whether its Python type depends on the data: `max(n, 1.0)` is an int or a float."""


def scalar_type_of(dtype: torch.dtype) -> type[int] | type[float] | type[bool] | None:
    """Return the Python type of `.item()` for a dtype; None for complex dtypes."""
    if dtype is torch.bool:
        return bool
    if dtype.is_complex:
        return None
    return float if dtype.is_floating_point else int


def promoted_dtype(
    number: Number, others: Iterable[TensorSummary], divided: bool = False
) -> torch.dtype | None:
    """Return the dtype to cast a 0-d tensor to if it replaces the Python number `number`.

    After the cast, operations with the tensors `others` give the dtypes that they gave with the
    number: an int64 tensor times a float gives float32, so a 0-d float64 must be cast to float32.
    `divided` is True for `/`, which gives floats even for integers. None if no cast is needed.
    Raises NotApplicable if no single dtype fits.
    """
    needed: set[torch.dtype | None] = set()
    for other in others:
        if number.is_int_or_float and not other.is_float and not divided:
            raise NotApplicable("it is an int or a float, as the data decide")
        if other.layout != "strided":
            raise NotApplicable("it meets a tensor that is not dense")
        if other.dtype.startswith("complex"):
            raise NotApplicable("it meets a complex tensor")
        seen = torch.empty([1] * len(other.shape), dtype=getattr(torch, other.dtype))
        before = torch.result_type(seen, number.kind(1))
        after = torch.result_type(seen, torch.empty((), dtype=number.dtype))
        whole = not (before.is_floating_point or after.is_floating_point)
        needed.add(None if before is after or (divided and whole) else before)
    if len(needed) > 1:
        raise NotApplicable("it meets tensors of several dtypes")
    return next(iter(needed), None)


def arithmetic_result(number: Number, other: type, divided: bool) -> Number:
    """Return the number that results from arithmetic with a Python number of type `other`.

    `divided` is true for `/`, whose result is a float.
    """
    kind = float if divided or float in (number.kind, other) else int
    one = torch.empty((), dtype=number.dtype)
    dtype = torch.result_type(one, kind(1) if kind is float else 1)
    is_int_or_float = number.is_int_or_float and kind is not float
    return Number(kind, dtype, True, number.may_be_plain, True, is_int_or_float)
