"""Decompositions of operators of lists of tensors, `_foreach_add` and its kind."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

aten = torch.ops.aten
Number = int | float | bool


def foreach_decompositions() -> Mapping[str, Callable[..., list[Tensor]]]:
    """Return the decomposition of each operator of lists that returns new tensors.

    The names are those of torch's functions: `torch.ops.aten` lists what was asked for before.
    """
    names = {name.removesuffix("_") for name in dir(torch) if name.startswith("_foreach_")}
    return {
        f"{name}.{overload}": functools.partial(_foreach, _operator_of(name))
        for name in sorted(names)
        for overload in getattr(aten, name).overloads()
        if "out" not in overload
    }


def _operator_of(name: str) -> Callable[..., Tensor]:
    """Return the function of one tensor that an operator of lists calls for each."""
    name = name.removeprefix("_foreach_")
    found: Callable[..., Tensor] = _FUNCTIONS.get(name) or getattr(torch, name)
    return found


def _foreach(function: Callable[..., Tensor], *args: object, **kwargs: object) -> list[Tensor]:
    """Call a function for each element of the lists among arguments; others are shared.

    A tensor in the place of three lists' scalars has one element for each.
    """
    lists = [one for one in args if isinstance(one, list | tuple)]
    if len(lists) == 3 and isinstance(args[-1], Tensor):
        args = (*args[:-1], args[-1].unbind())
    return [
        function(*(one[number] if isinstance(one, list | tuple) else one for one in args), **kwargs)
        for number in range(len(lists[0]))
    ]


def _maximum(x: Tensor, other: Tensor | Number) -> Tensor:
    return torch.maximum(x, other) if isinstance(other, Tensor) else torch.clamp(x, min=other)


def _minimum(x: Tensor, other: Tensor | Number) -> Tensor:
    return torch.minimum(x, other) if isinstance(other, Tensor) else torch.clamp(x, max=other)


_FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
    "powsum": lambda x, ord=2, dtype=None: (x.abs() ** ord).sum(dtype=dtype),
    "addcdiv": lambda x, a, b, value=1: x + value * a / b,
    "addcmul": lambda x, a, b, value=1: x + value * a * b,
    **dict.fromkeys(("maximum", "clamp_min"), _maximum),
    **dict.fromkeys(("minimum", "clamp_max"), _minimum),
    "max": lambda x: aten.amax(x, []),
    "zero": torch.zeros_like,
    "copy": aten.copy.default,
}
"""Functions that are not torch's of the same name."""
