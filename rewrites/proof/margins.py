"""Margins: numbers with a gradient behind what Python reads from tensors.

`if (scores > 0.9).float().mean() > limit` reads one bool, which has no gradient. Its margin has: it
is positive where the bool is true, and grows with the scores. What reads a number (`.item()`) has a
soft number: the mean of how far the scores are above 0.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fullgraph.compiler.private import tree_leaves, tree_map

_ORDERS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    **dict.fromkeys(("gt", "ge", "greater", "greater_equal"), lambda a, b: a - b),
    **dict.fromkeys(("lt", "le", "less", "less_equal"), lambda a, b: b - a),
    **dict.fromkeys(("eq", "equal", "allclose", "isclose"), lambda a, b: -(a - b).abs()),
    **dict.fromkeys(("ne", "not_equal"), lambda a, b: (a - b).abs()),
}
_LOGIC: dict[str, Callable[..., torch.Tensor]] = {
    **dict.fromkeys(("logical_and", "bitwise_and", "and", "iand"), torch.minimum),
    **dict.fromkeys(("logical_or", "bitwise_or", "or", "ior"), torch.maximum),
    **dict.fromkeys(("logical_not", "bitwise_not", "invert"), torch.neg),
}
_EXTREMES = {"any": 1, "max": 1, "amax": 1, "all": -1, "min": -1, "amin": -1}
"""Functions that return the greatest (1) or the least (-1) element."""
_READS = {"bool", "item", "float", "int", "index", "tolist", "is_nonzero", "equal", "allclose"}
_COUNTS = {"nonzero", "argwhere", "masked_select", "getitem", "where"}
"""Functions whose result has as many elements as a mask selects."""
_CASTS = {"bool", "int", "long", "short", "byte", "char", "to", "type", "type_as"}
_STEPS = {"round", "floor", "ceil", "trunc", "fix", "sign", "sgn"}
"""Functions whose gradient is zero; the soft number is that of their argument."""
_CHANGES = {"__setitem__", "__set__", "__iadd__", "__isub__", "__imul__", "__itruediv__"}
_DATA: object = torch.Tensor.data.__get__  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _Call:
    """A call of a function of torch."""

    func: Callable[..., Any]
    name: str
    """The function's name without underscores: "gt" of `Tensor.__gt__`."""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments."""
        leaves = tree_leaves((self.args, dict(self.kwargs)))
        return [one for one in leaves if isinstance(one, torch.Tensor)]

    @property
    def over(self) -> tuple[tuple[int, ...], bool]:
        """The dimensions that a reduction removes, and whether it keeps them with size 1."""
        dim = self.kwargs.get("dim", self.args[1] if len(self.args) > 1 else None)
        keepdim = self.kwargs.get("keepdim", self.args[2] if len(self.args) > 2 else False)
        every = tuple(range(self.args[0].dim()))
        return every if dim is None else (dim,) if isinstance(dim, int) else tuple(dim), keepdim

    @property
    def mask(self) -> torch.Tensor | None:
        """The mask whose true elements the call selects; None if it is not such a call."""
        if self.name not in _COUNTS or (self.name == "where" and len(self.args) > 1):
            return None
        chosen = self.args[1] if self.name in ("getitem", "masked_select") else self.args[0]
        masks = [one for one in tree_leaves(chosen) if isinstance(one, torch.Tensor)]
        wanted = (one for one in masks if one.dtype is torch.bool or self.name != "getitem")
        return next(wanted, None)


class Margins(TorchFunctionMode):
    """While active, follows everything that Python reads from tensors, even under `no_grad`.

    A detached tensor keeps its gradient, so what the program computes is the same, but not what it
    is told of `requires_grad`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[torch.Tensor] = []
        """The margin or soft number, 0-d, of each read so far of what depends on the leaves."""
        self.count = 0
        """How many reads there were so far, also of what depends on none of them."""
        self.constants: set[float] = set()
        """The numbers with which tensors that have no gradient were compared."""
        self._soft: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func == _DATA or func is torch.Tensor.detach:
            with torch.enable_grad():
                return args[0].view_as(args[0])
        if func is torch.Tensor.numpy or func is torch.Tensor.__array__:
            with suppress(Exception), torch.enable_grad():
                self._read(self._of(args[0]))
            return func(args[0].detach(), *args[1:], **kwargs)
        name = getattr(func, "__name__", "")
        if name in _CHANGES or (name.endswith("_") and not name.endswith("__")):
            result = func(*args, **kwargs)  # with a gradient it refuses leaves
        else:
            with torch.enable_grad():
                result = func(*args, **kwargs)
        with suppress(Exception), torch.enable_grad():
            self._follow(_Call(func, name.strip("_"), args, kwargs), result)
        return result

    def _follow(self, call: _Call, result: Any) -> None:
        """Note what a call reads, and the soft form of its result."""
        tensors = call.tensors
        if not tensors:
            return
        if call.name in _READS and not isinstance(result, torch.Tensor):
            self._read(self._order(call) if call.name in _ORDERS else self._of(tensors[0]))
        elif (mask := call.mask) is not None:
            self._read(self._number(mask).sum())
        else:
            values = getattr(result, "values", None) if call.name in _EXTREMES else None
            hard = values if isinstance(values, torch.Tensor) else result
            if isinstance(hard, torch.Tensor):
                soft = self._soften(call, hard)
                if soft is not None and soft.requires_grad and soft.shape == hard.shape:
                    self._soft[id(hard)] = (hard, soft)

    def _read(self, soft: torch.Tensor) -> None:
        self.count += 1
        if soft.requires_grad and soft.numel():
            self.reads.append(soft.double().mean())

    def _soften(self, call: _Call, result: torch.Tensor) -> torch.Tensor | None:
        """Return the soft form of a result; None if it has none but its own gradient."""
        first, name = call.args[0] if call.args else None, call.name
        if name in _ORDERS and result.dtype is torch.bool:
            return self._order(call)
        if name == "where":
            chosen = self._number(call.args[0])
            yes, no = (self._number(torch.as_tensor(one)) for one in call.args[1:])
            return chosen * yes + (1 - chosen) * no
        if not isinstance(first, torch.Tensor):
            return self._run_softly(call)
        if name in _EXTREMES and len(call.tensors) == 1:
            return _extreme(_EXTREMES[name], self._of(first), *call.over)
        if first.dtype is torch.bool and name in _LOGIC:
            return _LOGIC[name](*map(self._margin, call.tensors))
        if name in _STEPS:
            return self._number(first)
        if name in _CASTS and result.dtype is not first.dtype:
            number = self._number(first)
            half = 0.0 if first.is_floating_point() else 0.5
            return number.abs() - half if result.dtype is torch.bool else number
        return self._run_softly(call)

    def _run_softly(self, call: _Call) -> torch.Tensor | None:
        """Run a call again on the soft forms of its arguments; None if none has a soft form."""
        if not any(id(one) in self._soft for one in call.tensors):
            return None
        args, kwargs = tree_map(self._argument, (call.args, dict(call.kwargs)))
        return (torch.sum if call.name == "count_nonzero" else call.func)(*args, **kwargs)

    def _argument(self, one: object) -> object:
        """Return an argument in its soft form, and a dtype that has gradients."""
        if isinstance(one, torch.Tensor) and id(one) in self._soft:
            return self._number(one)
        if isinstance(one, torch.dtype) and not one.is_floating_point:
            return torch.float64
        return one

    def _order(self, call: _Call) -> torch.Tensor:
        """Return the margin of a comparison."""
        sides = []
        for one, other in (call.args[:2], call.args[1::-1]):
            if isinstance(one, torch.Tensor):
                sides.append(self._number(one))
                if not sides[-1].requires_grad and isinstance(other, bool | int | float):
                    self.constants.add(float(other))
            else:
                sides.append(torch.as_tensor(one, dtype=torch.float64))
        return _ORDERS[call.name](*sides)

    def _of(self, one: torch.Tensor) -> torch.Tensor:
        """Return the margin of a bool tensor, or the soft form of numbers."""
        return self._margin(one) if one.dtype is torch.bool else self._number(one)

    def _margin(self, one: torch.Tensor) -> torch.Tensor:
        if id(one) in self._soft:
            return self._soft[id(one)][1].double()
        return torch.where(one, torch.inf, -torch.inf).double()

    def _number(self, one: torch.Tensor) -> torch.Tensor:
        """Return numbers with a gradient: of a bool tensor, how far each element is true."""
        if id(one) not in self._soft:
            return one.double()
        soft = self._soft[id(one)][1].double()
        return soft if one.dtype is not torch.bool else torch.sigmoid(soft / _scale(soft))


def _extreme(
    sign: int, numbers: torch.Tensor, dims: tuple[int, ...], keepdim: bool
) -> torch.Tensor:
    """Return about the greatest element (the least, with a sign of -1).

    All elements near it share the gradient: each of them has to change.
    """
    if not dims:
        return numbers
    scaled = numbers * sign / (_scale(numbers) / 4)
    return torch.logsumexp(scaled, dims, keepdim) * (_scale(numbers) / 4) * sign


def _scale(numbers: torch.Tensor) -> torch.Tensor:
    """Return the mean size of the finite elements, without a gradient."""
    finite = numbers.detach()[numbers.detach().isfinite()]
    return finite.abs().mean() + 1e-9 if finite.numel() else torch.tensor(1.0)
