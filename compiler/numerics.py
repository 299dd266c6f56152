"""What counts as equal to eager: tolerances by dtype and operator, and the float64 reference.

An element is equal if `|got - expected| <= atol + rtol * |expected|`:

| dtype               | pointwise (rtol, atol) | accumulating (rtol, atol) |
|---------------------|------------------------|---------------------------|
| float64, complex128 | 1e-9, 1e-9             | 1e-7, 1e-7                |
| float32, complex64  | 1e-5, 1e-5             | 1e-4, 1e-5                |
| float16, complex32  | 5e-3, 1e-3             | 1e-2, 1e-3                |
| bfloat16            | 1.6e-2, 1e-3           | 3e-2, 1e-2                |
| float8              | 0.1, 0.1               | 0.1, 0.1                  |
| any other           | 0, 0                   | 0, 0                      |

The pointwise column holds for graphs of pointwise operators and views only, which round each
element a few times: it is that of `torch.testing.assert_close`, for some ten operators in a row.
The accumulating column holds for reductions, matrix products, convolutions, all gradients, and
programs whose operators are not known. Another order of a sum moves its result by some roundings of
its greatest terms; `torch._dynamo.utils.same` allows 1e-4 for float32. A Python float has the
tolerance of float32, since most come from `.item()`. A tolerance that the user gives replaces both
columns, as rtol and as atol.

The same table holds everywhere:

- `bisect`, `minify` and `fix` compare with the accumulating column.
- Scripts of `minify` assert with the same numbers, as a relative and an absolute tolerance.
- `compile` picks the column by the graph.

If elements differ by more, `bisect`, `minify` and `compile` run the program in float64. A result
also counts as equal if its error against float64 is at most `NOISE` times the error of eager, which
may be small by chance: in the accumulating column `ROUNDINGS` times rtol of the greatest element is
added. `fix` and `compile` also accept a difference that eager shows when its inputs are rounded
differently.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch

from fullgraph.compiler.results import RecordedTensor, RunResults

MismatchKind = Literal["result", "metadata", "gradient", "mutation"]


@dataclass(frozen=True)
class Tolerance:
    """Relative and absolute tolerance."""

    rtol: float
    atol: float


_EXACT = Tolerance(0.0, 0.0)
_FLOAT8 = Tolerance(0.1, 0.1)
_POINTWISE = {
    torch.float64: Tolerance(1e-9, 1e-9),
    torch.float32: Tolerance(1e-5, 1e-5),
    torch.float16: Tolerance(5e-3, 1e-3),
    torch.bfloat16: Tolerance(1.6e-2, 1e-3),
}
_ACCUMULATING = {
    torch.float64: Tolerance(1e-7, 1e-7),
    torch.float32: Tolerance(1e-4, 1e-5),
    torch.float16: Tolerance(1e-2, 1e-3),
    torch.bfloat16: Tolerance(3e-2, 1e-2),
}

OWN_MEMORY = "memory of its own"
"""Text in a `Mismatch` of aspect "alias" for a tensor that shares no memory."""

NOTHING = "nothing"
"""Text in a `Mismatch` for a result that one of the runs lacks."""

NOISE = 2.0
"""Largest error of a result that counts as equal, in multiples of eager's error.

Both errors are distances from the result in float64."""

ROUNDINGS = 0.3
"""Error of a sum of many terms, in multiples of rtol times the greatest element of the result."""


def tolerance_of(dtype: torch.dtype, *, pointwise: bool = False) -> Tolerance:
    """Return the tolerance of a dtype; if `pointwise`, that for graphs of pointwise operators."""
    real = dtype.to_real() if dtype.is_complex else dtype
    table = _POINTWISE if pointwise else _ACCUMULATING
    return table.get(real) or (_FLOAT8 if real.is_floating_point else _EXACT)


SCALAR = tolerance_of(torch.float32)
"""Tolerance of a Python float."""


def is_pointwise(graph: torch.fx.GraphModule) -> bool:
    """Return whether a Dynamo graph calls only pointwise operators and views."""
    calls = [node for node in graph.graph.nodes if node.op.startswith("call_")]
    return all(map(_is_pointwise_call, calls))


def _is_pointwise_call(node: torch.fx.Node) -> bool:
    """Return whether a call node is a pointwise operator, a view, or an item of a tuple."""
    if node.target is operator.getitem:
        return True
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    packet = getattr(torch.ops.aten, name.strip("_"), None)
    if node.op == "call_module" or packet is None:
        return False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    return any(torch.Tag.pointwise in each.tags or each.is_view for each in overloads)


@dataclass(frozen=True)
class Mismatch:
    """The first difference between two runs: which value differs, in what, and both versions."""

    kind: MismatchKind
    where: str
    """Name of the value that differs: "output[0]", "input[1]", "layers.0.weight"."""
    aspect: str
    """What differs: "dtype", "shape", "stride", "layout", "requires_grad", "alias", "type" or
    "keys"; for elements "nan", "infinite" or "value"."""
    expected: str
    got: str
    index: tuple[int, ...] = ()
    """Index of the first unequal element; () for metadata and tensors of one element."""

    @property
    def element(self) -> str:
        """Return `index` as Python source, "[0, 2]"; "" if it is ()."""
        return f"[{', '.join(map(str, self.index))}]" if self.index else ""

    def __str__(self) -> str:
        what = "" if self.aspect == "value" else f" ({self.aspect})"
        return f"{self.where}{what}: expected {self.expected}, got {self.got}"


def find_mismatch(
    expected: RunResults,
    got: RunResults,
    *,
    tolerance: Tolerance | None = None,
    pointwise: bool = False,
    strides: bool = True,
    float64_results: Callable[[], RunResults | None] = lambda: None,
    is_noise: Callable[[Mismatch, object, object], bool] = lambda mismatch, expected, got: False,
) -> Mismatch | None:
    """Return the first difference between two runs; None if they are equal.

    Elements are compared with `tolerance`, by default `tolerance_of` their dtype and `pointwise`,
    or without `pointwise` for gradients. Strides and aliases of outputs are compared if `strides`.
    If elements differ, `float64_results()` returns the results in float64 to compare with, or None
    if the program does not run in float64. If they still differ, `is_noise(mismatch, expected,
    got)` may return True to accept the difference.
    """
    reference: list[RunResults | None] = []
    for name, container in expected.containers.items():
        if got.containers.get(name, container) != container:
            return Mismatch("metadata", name, "type", container, got.containers[name])
    for kind, part in _PARTS:
        one, other = part(expected), part(got)
        missing = _find_missing(kind, one, other)
        if missing is not None:
            return missing
        compare = _Comparison(
            kind, tolerance, pointwise and kind != "gradient", strides and kind == "result"
        )
        for name in [*one, *(other.keys() - one.keys())]:
            found = compare.compare_leaves(name, one.get(name), other.get(name))
            if found is None:
                continue
            if found.aspect in ("nan", "infinite", "value"):
                reference = reference or [float64_results()]
                exact = part(reference[0]).get(name) if reference[0] is not None else None
                roundings = 0.0 if tolerance or compare.pointwise else ROUNDINGS
                if is_near_float64(exact, one.get(name), other.get(name), roundings):
                    continue
                if is_noise(found, one.get(name), other.get(name)):
                    continue
            return found
    return None


_PARTS: tuple[tuple[MismatchKind, Callable[[RunResults], Mapping[str, object]]], ...] = (
    ("result", lambda results: results.outputs),
    ("gradient", lambda results: results.gradients),
    ("mutation", lambda results: results.state),
)


def _find_missing(
    kind: MismatchKind, one: Mapping[str, object], other: Mapping[str, object]
) -> Mismatch | None:
    """Return a mismatch if only one of the two runs has a value; None if both have the same ones.

    A missing gradient is no mismatch: it counts as zeros.
    """
    if one.keys() == other.keys() or kind == "gradient":
        return None
    if kind == "result":
        expected, got = (", ".join(each) or NOTHING for each in (one, other))
        return Mismatch("metadata", "output", "keys", expected, got)
    name = next(name for name in [*one, *other] if (name in one) != (name in other))
    expected, got = (_format_value(run[name]) if name in run else NOTHING for run in (one, other))
    return Mismatch(kind, name, "keys", expected, got)


def is_near_float64(exact: object, expected: object, got: object, roundings: float) -> bool:
    """Return whether `got` is at most `NOISE` times as far from float64 as eager's result is.

    `expected` is eager's result, `exact` the one in float64; the distance is the largest difference
    of two elements. It may be greater by `roundings` times rtol of the greatest element. False
    unless all three are tensors of one shape.
    """
    values = [each for each in (exact, expected, got) if isinstance(each, RecordedTensor)]
    if len(values) < 3 or any(each.elements is None for each in values):
        return False
    if len({each.shape for each in values}) > 1:
        return False
    special, distance = _largest_difference(values[2], values[0])
    eager_special, eager_distance = _largest_difference(values[1], values[0])
    if special != eager_special:
        return special < eager_special
    assert values[0].elements is not None
    zero = replace(values[0], elements=torch.zeros_like(values[0].elements))
    greatest = _largest_difference(zero, values[0])[1]
    allowed = roundings * tolerance_of(values[1].dtype).rtol * greatest
    return distance <= NOISE * eager_distance + allowed


def _largest_difference(value: RecordedTensor, exact: RecordedTensor) -> tuple[int, float]:
    """Return (number of elements that only one tensor has as NaN or infinity, difference).

    The difference is the largest among elements finite in both tensors; 0.0 if there are none.
    """
    assert value.elements is not None and exact.elements is not None
    one, other = value.elements.double(), exact.elements.double()
    limit = torch.finfo(value.dtype).max if value.dtype.is_floating_point else math.inf
    other = torch.where(other.abs() > limit, other.sign() * math.inf, other)
    special = (one.isnan() != other.isnan()) | ((one.isinf() | other.isinf()) & (one != other))
    special &= ~(one.isnan() & other.isnan())
    finite = (one - other).abs()[one.isfinite() & other.isfinite()]
    return int(special.sum()), float(finite.max()) if finite.numel() else 0.0


@dataclass(frozen=True)
class _Comparison:
    """Comparison of two runs' outputs, gradients or state, leaf by leaf."""

    kind: MismatchKind
    tolerance: Tolerance | None
    pointwise: bool
    strides: bool

    def compare_leaves(self, where: str, one: object, other: object) -> Mismatch | None:
        """Return how two leaves differ; None if they are equal.

        Tensors are compared with the tolerance, other values with `_compare_plain`.
        """
        if self.kind == "gradient":  # no gradient equals one of zeros
            one, other = _zeros_for_missing(one, other), _zeros_for_missing(other, one)
        if not (isinstance(one, RecordedTensor) and isinstance(other, RecordedTensor)):
            return self._compare_plain(where, one, other)
        for aspect, expected, got in _metadata_aspects(one, other, self.strides):
            if expected != got:
                kind: MismatchKind = "metadata" if self.kind == "result" else self.kind
                return Mismatch(kind, where, aspect, str(expected), str(got))
        expected, got, unequal = _find_unequal(one, other, self.tolerance, self.pointwise)
        for aspect, mask in unequal.items():
            if mask.any():
                first = int(mask.reshape(-1).to(torch.uint8).argmax())
                pair = (each.reshape(-1)[first].item() for each in (expected, got))
                want, found = (str(one) if type(one) is int else f"{one:.6g}" for one in pair)
                index: tuple[int, ...] = ()
                if mask.numel() > 1 and mask.shape == one.shape:
                    index = tuple(map(int, torch.unravel_index(torch.tensor(first), mask.shape)))
                return Mismatch(self.kind, where, aspect, want, found, index)
        return None

    def _compare_plain(self, where: str, one: object, other: object) -> Mismatch | None:
        """Compare leaves that are not both tensors by `==`, and floats with a tolerance."""
        if one == other or (one != one and other != other):
            return None
        if isinstance(one, float) and isinstance(other, float):
            limit = self.tolerance
            if limit is None or not limit.rtol:  # two runs of eager: a float may be a time
                limit = SCALAR
            if math.isclose(one, other, rel_tol=limit.rtol, abs_tol=limit.atol):
                return None
            return Mismatch(self.kind, where, "value", repr(one), repr(other))
        same = type(one) is type(other)
        kind: MismatchKind = "metadata" if self.kind == "result" and not same else self.kind
        return Mismatch(
            kind, where, "value" if same else "type", _format_value(one), _format_value(other)
        )


def _zeros_for_missing(value: object, other: object) -> object:
    """Return `value`; zeros like the gradient `other` if `value` is None, a missing gradient."""
    if value is None and isinstance(other, RecordedTensor) and other.elements is not None:
        return replace(other, elements=torch.zeros_like(other.elements))
    return value


def _metadata_aspects(
    one: RecordedTensor, other: RecordedTensor, strides: bool
) -> Iterator[tuple[str, object, object]]:
    """Yield ("dtype", value in `one`, value in `other`), …; strides and aliases if `strides`."""
    yield "type", one.kind, other.kind
    yield "dtype", one.dtype, other.dtype
    yield "shape", one.shape, other.shape
    yield "layout", one.layout, other.layout
    yield "device", one.device, other.device
    yield "requires_grad", one.requires_grad, other.requires_grad
    if strides:
        yield "stride", _significant_strides(one), _significant_strides(other)
        yield "alias", one.alias or OWN_MEMORY, other.alias or OWN_MEMORY


def _significant_strides(value: RecordedTensor) -> tuple[int, ...] | None:
    """Return the strides, with 0 for dims of size one; None if there are no strides or elements."""
    if value.stride is None or 0 in value.shape:
        return None
    return tuple(s if n > 1 else 0 for s, n in zip(value.stride, value.shape, strict=True))


def count_mismatches(one: RecordedTensor, other: RecordedTensor, *, pointwise: bool = False) -> int:
    """Return how many elements of two tensors of one shape differ, judged by `tolerance_of`."""
    unequal = _find_unequal(one, other, None, pointwise)[2]
    return sum(int(mask.sum()) for mask in unequal.values())


def _find_unequal(
    one: RecordedTensor, other: RecordedTensor, tolerance: Tolerance | None, pointwise: bool
) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Return both tensors' elements, and masks of the unequal ones by aspect: "nan", "value", …

    If `tolerance` is None, it is `tolerance_of` the dtype and `pointwise`.
    """
    if one.elements is None or other.elements is None or not one.elements.numel():
        return torch.empty(0), torch.empty(0), {}
    expected, got = one.elements, other.elements
    if not (one.dtype.is_floating_point or one.dtype.is_complex):
        return expected, got, {"value": expected != got}
    expected, got = expected.double(), got.double()
    nan = expected.isnan() != got.isnan()
    infinite = (expected.isinf() | got.isinf()) & (expected != got) & ~nan
    limit = tolerance or tolerance_of(one.dtype, pointwise=pointwise)
    finite = expected.isfinite() & got.isfinite()
    far = finite & ((expected - got).abs() > limit.atol + limit.rtol * expected.abs())
    return expected, got, {"nan": nan, "infinite": infinite, "value": far}


def _format_value(value: object) -> str:
    return value.kind if isinstance(value, RecordedTensor) else repr(value)
