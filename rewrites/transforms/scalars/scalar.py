"""A Python number that was taken out of a tensor, and how a tensor behaves in its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from fullgraph.rewrites.analysis import NotApplicable, TensorSeen

NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32)
"""Integers in which arithmetic may overflow where Python's does not."""
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
"""The methods that convert a tensor to a dtype."""


SIZE = "a size depends on it"


@dataclass(frozen=True)
class Number:
    """A number, and the dtype of the tensor without dimensions that takes its place."""

    kind: type[int] | type[float] | type[bool]
    """What Python has."""
    dtype: torch.dtype
    fresh: bool = True
    """Whether the tensor shares memory with no other."""
    mixed: bool = False
    """Whether a plain number may stand at the same place, so that its text must fit both."""
    computed: bool = False
    """Whether Python's arithmetic, in float64, is now the tensor's."""
    either: bool = False
    """Whether Python has now an int and now a float: `max(n, 1.0)`."""


def kind_of(dtype: torch.dtype) -> type[int] | type[float] | type[bool] | None:
    """What `.item()` gives for a dtype; None where it is no real number."""
    if dtype is torch.bool:
        return bool
    if dtype.is_complex:
        return None
    return float if dtype.is_floating_point else int


def met(number: Number, others: Iterable[TensorSeen], divided: bool = False) -> torch.dtype | None:
    """The dtype the number's tensor needs, so that operations with `others` give what they gave.

    None if it is fine as it is. A Python number has the weakest dtype of its kind; a tensor
    without dimensions is as weak only beside tensors that have some. Raises NotApplicable if no
    single dtype fits.
    """
    needed: set[torch.dtype | None] = set()
    for other in others:
        if number.either and not other.is_float and not divided:
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


def combined(number: Number, other: type, divided: bool) -> Number:
    """What arithmetic of a number with another Python number gives."""
    kind = float if divided or float in (number.kind, other) else int
    one = torch.empty((), dtype=number.dtype)
    dtype = torch.result_type(one, kind(1) if kind is float else 1)
    either = number.either and kind is not float
    return Number(kind, dtype, True, number.mixed, True, either)
