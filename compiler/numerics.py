"""Whether two runs of a program gave the same, and which of them float64 sides with."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from fullgraph.compiler.private import tree_map
from fullgraph.compiler.results import Results, Value

Kind = Literal["result", "metadata", "gradient", "mutation"]

TOLERANCES = {
    torch.float64: 1e-6,
    torch.float32: 1e-3,
    torch.float16: 1e-2,
    torch.bfloat16: 2e-2,
}
"""Relative and absolute, where none is given; 0.1 for smaller floats, 0 for integers."""

OWN = "memory of its own"
"""What `Difference` says of the alias of a tensor that has none."""

NOTHING = "nothing"
"""What `Difference` says of what is not there."""

NOISE = 2.0
"""How many times eager's own distance from float64 a compiled result may be away from it."""


@dataclass(frozen=True)
class Difference:
    """The first thing in which a run gave something else than expected."""

    kind: Kind
    where: str
    """ "output[0]", "input[1]", "layers.0.weight"."""
    aspect: str
    """What differs: "dtype", "shape", "stride", "layout", "requires_grad", "alias", "type", "keys",
    or of the elements "nan", "infinite", "value"."""
    expected: str
    got: str

    def __str__(self) -> str:
        what = "" if self.aspect == "value" else f" ({self.aspect})"
        return f"{self.where}{what}: expected {self.expected}, got {self.got}"


def difference(
    expected: Results,
    got: Results,
    *,
    tol: float | None = None,
    strides: bool = True,
    judge: Callable[[], Results | None] = lambda: None,
    excuse: Callable[[Difference, Any, Any], bool] = lambda found, expected, got: False,
) -> Difference | None:
    """The first way in which `got` is not what was expected; None if there is none.

    `judge` gives the results in float64, or None; it is asked only when elements differ. Elements
    that are nearer to it than those expected, or not further away than noise, do not count.
    """
    reference: list[Results | None] = []

    def exact() -> Results | None:
        if not reference:
            reference.append(judge())
        return reference[0]

    for name, held in expected.containers.items():
        if got.containers.get(name, held) != held:
            return Difference("metadata", name, "type", held, got.containers[name])
    for kind, part in _PARTS:
        one, other = part(expected), part(got)
        lost = _lost(kind, one, other)
        if lost is not None:
            return lost
        for name in [*one, *(other.keys() - one.keys())]:
            found = _leaf_difference(
                name, one.get(name), other.get(name), kind, tol, strides and kind == "result"
            )
            if found is None:
                continue
            if found.aspect in _ELEMENTS:
                best = exact()
                true = part(best).get(name) if best is not None else None
                if sides_with(true, one.get(name), other.get(name)):
                    continue
                if excuse(found, one.get(name), other.get(name)):
                    continue
            return found
    return None


_ELEMENTS = ("nan", "infinite", "value")
_PARTS: tuple[tuple[Kind, Callable[[Results], Mapping[str, Any]]], ...] = (
    ("result", lambda results: results.outputs),
    ("gradient", lambda results: results.gradients),
    ("mutation", lambda results: results.state),
)


def _lost(kind: Kind, one: Mapping[str, Any], other: Mapping[str, Any]) -> Difference | None:
    """What only one of two runs has. No gradient is the same as one of zeros."""
    if one.keys() == other.keys() or kind == "gradient":
        return None
    if kind == "result":
        return Difference("metadata", "output", "keys", _names(one), _names(other))
    name = next(name for name in [*one, *other] if (name in one) != (name in other))
    shown = (_show(side[name]) if name in side else NOTHING for side in (one, other))
    return Difference(kind, name, "keys", *shown)


def sides_with(true: Any, expected: Any, got: Any) -> bool:
    """Whether `got` is at least as near to the float64 value as `expected` is, noise aside."""
    if not all(isinstance(v, Value) and v.content is not None for v in (true, expected, got)):
        return False
    if not true.shape == expected.shape == got.shape:
        return False
    wrong, distance = _distance(got, true)
    eager_wrong, eager_distance = _distance(expected, true)
    if wrong != eager_wrong:
        return wrong < eager_wrong
    return distance <= NOISE * eager_distance


def _distance(value: Value, true: Value) -> tuple[int, float]:
    """How many elements are NaN or infinite where the other's are not, and how far the rest is."""
    assert value.content is not None and true.content is not None
    one, other = value.content.double(), true.content.double()
    limit = torch.finfo(value.dtype).max if value.dtype.is_floating_point else math.inf
    other = torch.where(other.abs() > limit, other.sign() * math.inf, other)
    special = (one.isnan() != other.isnan()) | ((one.isinf() | other.isinf()) & (one != other))
    special &= ~(one.isnan() & other.isnan())
    rest = (one - other).abs()[one.isfinite() & other.isfinite()]
    return int(special.sum()), float(rest.max()) if rest.numel() else 0.0


def in_float64(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """Copies in which every floating-point tensor is float64 and every complex one complex128."""
    if isinstance(module, torch.nn.Module):
        module = copy.deepcopy(module).double()
    return module, tree_map(_double, args), tree_map(_double, kwargs)


def _double(thing: Any) -> Any:
    if not isinstance(thing, torch.Tensor):
        return thing
    wide = thing.detach()
    if thing.is_floating_point():
        wide = wide.double()
    elif thing.is_complex():
        wide = wide.to(torch.complex128)
    wide = wide.clone() if wide is thing or wide.dtype == thing.dtype else wide
    return wide.requires_grad_(thing.requires_grad) if thing.is_leaf else wide


def _leaf_difference(
    where: str, one: Any, other: Any, kind: Kind, tol: float | None, strides: bool
) -> Difference | None:
    if kind == "gradient":  # no gradient is the same as one of zeros
        one, other = _or_zeros(one, other), _or_zeros(other, one)
    if not (isinstance(one, Value) and isinstance(other, Value)):
        if one == other or (one != one and other != other):
            return None
        if isinstance(one, float) and isinstance(other, float):
            if math.isclose(one, other, rel_tol=tol or 1e-3, abs_tol=tol or 1e-3):
                return None
            return Difference(kind, where, "value", repr(one), repr(other))
        same = type(one) is type(other)
        shown = (_show(one), _show(other))
        return Difference(
            "metadata" if kind == "result" and not same else kind,
            where,
            "value" if same else "type",
            *shown,
        )
    for aspect, expected, got in _aspects(one, other, strides):
        if expected != got:
            told = "metadata" if kind == "result" else kind
            return Difference(told, where, aspect, str(expected), str(got))
    found = elements(one, other, tol)
    return found and Difference(kind, where, *found)


def _or_zeros(value: Any, other: Any) -> Any:
    if value is None and isinstance(other, Value) and other.content is not None:
        return Value(**{**vars(other), "content": torch.zeros_like(other.content)})
    return value


def _aspects(one: Value, other: Value, strides: bool) -> Iterator[tuple[str, Any, Any]]:
    yield "type", one.kind, other.kind
    yield "dtype", one.dtype, other.dtype
    yield "shape", one.shape, other.shape
    yield "layout", one.layout, other.layout
    yield "device", one.device, other.device
    yield "requires_grad", one.requires_grad, other.requires_grad
    if strides:
        yield "stride", _told_strides(one), _told_strides(other)
        yield "alias", one.alias or OWN, other.alias or OWN


def _told_strides(value: Value) -> tuple[int, ...] | None:
    """The strides that say something: not those of axes with one element."""
    if value.stride is None or 0 in value.shape:
        return None
    return tuple(s if n > 1 else 0 for s, n in zip(value.stride, value.shape, strict=True))


def elements(one: Value, other: Value, tol: float | None) -> tuple[str, str, str] | None:
    """Where the elements differ: what about them, and the first of each; None if nowhere."""
    expected, got, wrong = _wrong(one, other, tol)
    for aspect, where in wrong.items():
        found = _first(where, expected, got, aspect)
        if found:
            return found
    return None


def mismatches(one: Value, other: Value, tol: float | None = None) -> int:
    """How many elements differ."""
    return sum(int(where.sum()) for where in _wrong(one, other, tol)[2].values())


def _wrong(
    one: Value, other: Value, tol: float | None
) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """The elements of both, and where they differ, by what about them; each place is in one."""
    if one.content is None or other.content is None or not one.content.numel():
        return torch.empty(0), torch.empty(0), {}
    expected, got = one.content, other.content
    if not (one.dtype.is_floating_point or one.dtype.is_complex):
        return expected, got, {"value": expected != got}
    expected, got = expected.double(), got.double()
    nan = expected.isnan() != got.isnan()
    infinite = (expected.isinf() | got.isinf()) & (expected != got) & ~nan
    real = one.dtype.to_real() if one.dtype.is_complex else one.dtype
    limit = TOLERANCES.get(real, 0.1) if tol is None else tol
    finite = expected.isfinite() & got.isfinite()
    far = finite & ((expected - got).abs() > limit + limit * expected.abs())
    return expected, got, {"nan": nan, "infinite": infinite, "value": far}


def _first(
    wrong: torch.Tensor, expected: torch.Tensor, got: torch.Tensor, aspect: str
) -> tuple[str, str, str] | None:
    if not wrong.any():
        return None
    at = int(wrong.reshape(-1).to(torch.uint8).argmax())
    return aspect, _number(expected, at), _number(got, at)


def _number(tensor: torch.Tensor, at: int) -> str:
    return f"{tensor.reshape(-1)[at].item():.6g}"


def _names(tree: Mapping[str, Any]) -> str:
    return ", ".join(tree) or NOTHING


def _show(value: Any) -> str:
    return value.kind if isinstance(value, Value) else repr(value)
