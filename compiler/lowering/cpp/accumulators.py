"""Reductions in C++: how a value is accumulated."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fullgraph.compiler.lowering.cpp.scalars import compute_type
from fullgraph.compiler.lowering.ir import Loop, ReductionKind, ScanKind, product

LONG_SUM = 1 << 14
"""Elements from which a sum of float32 is accumulated in float64."""
_CLAUSES = {"sum": "+", "prod": "*", "any": "|", "max": "max", "min": "min"}
_LIMITS = {
    "int64_t": ("(-0x7fffffffffffffffL - 1)", "0x7fffffffffffffffL"),
    "int32_t": ("(-0x7fffffff - 1)", "0x7fffffff"),
    "int16_t": ("-32768", "32767"),
    "int8_t": ("-128", "127"),
    "uint8_t": ("0", "255"),
    "bool": ("false", "true"),
}


@dataclass(frozen=True)
class Accumulator:
    """C++ text of one reduction: the type, the first value, one step, and the result.

    A maximum of floating-point numbers notes apart whether there was a NaN; argmax and argmin keep
    a position.
    """

    kind: ReductionKind | ScanKind
    type: str
    initial: str

    @property
    def clause(self) -> str | None:
        """Operator of OpenMP's `reduction` clause; None if the loop must run in order."""
        return _CLAUSES.get(self.kind)

    @property
    def _notes_nan(self) -> bool:
        return self.kind in ("max", "min") and self.type in ("float", "double")

    def parts(self, name: str) -> list[tuple[str, str, str]]:
        """Return type, name and first value of each variable."""
        found = [(self.type, name, self.initial)]
        if self._notes_nan:
            found.append(("int32_t", f"{name}_nan", "0"))
        if self.clause is None:
            found.append(("int64_t", f"{name}_at", "0"))
        return found

    def clauses(self, name: str) -> str:
        """Return OpenMP's `reduction` clauses."""
        nan = f" reduction(|:{name}_nan)" if self._notes_nan else ""
        return f" reduction({self.clause}:{name}){nan}"

    def step(self, name: str, lane: str, value: str, position: str) -> str:
        """Return the statement that accumulates a value; `position` is its place."""
        one = f"{name}{lane}"
        if self.kind in ("max", "min"):
            sign = ">" if self.kind == "max" else "<"
            nan = f" {name}_nan{lane} |= {value} != {value};" if self._notes_nan else ""
            return f"{one} = {value} {sign} {one} ? {value} : {one};{nan}"
        if self.clause is not None:
            return f"{one} {self.clause}= {value};"
        sign = ">" if self.kind == "argmax" else "<"
        is_first_nan = f"({value} != {value} && {one} == {one})"
        place = f"{name}_at{lane} = {position};"
        return f"if ({value} {sign} {one} || {is_first_nan}) {{ {one} = {value}; {place} }}"

    def result(self, name: str, lane: str) -> str:
        """Return the result after the last step."""
        if self.clause is None:
            return f"{name}_at{lane}"
        if self._notes_nan:
            return f'({name}_nan{lane} ? ({self.type})__builtin_nan("") : {name}{lane})'
        return f"{name}{lane}"


@dataclass(frozen=True)
class ScanAccumulator(Accumulator):
    """C++ text of a scan: the loop runs in order, and a step's result is one element."""

    @property
    def clause(self) -> None:
        """No clause: OpenMP does not reorder the loop."""
        return None

    def step(self, name: str, lane: str, value: str, position: str) -> str:
        """Return the statement that accumulates a value; of equal ones, the last counts."""
        one = f"{name}{lane}"
        if self.kind in ("sum", "prod"):
            return f"{one} {'+' if self.kind == 'sum' else '*'}= {value};"
        if self.kind == "logsumexp":
            return f"{one} = special::log_add_exp({value}, {one});"
        sign = ">=" if self.kind in ("max", "argmax") else "<="
        place = f"{name}_at{lane} = {position};"
        return f"if ({value} {sign} {one} || {value} != {value}) {{ {one} = {value}; {place} }}"

    def result(self, name: str, lane: str) -> str:
        """Return the element after a step."""
        return f"{name}_at{lane}" if self.kind in ("argmax", "argmin") else f"{name}{lane}"


def make_accumulator(loop: Loop) -> Accumulator:
    """Return how a loop's reduction is accumulated."""
    dtype = loop.body.dtype
    type_ = compute_type(dtype)
    if loop.scan:
        return _make_scan_accumulator(loop.scan.kind, dtype)
    kind = loop.reduction
    assert kind is not None
    if kind == "any":
        return Accumulator(kind, "int32_t", "0")
    if kind == "prod":
        return Accumulator(kind, type_, "1")
    if kind == "sum":
        count = product(loop.reduced)
        is_long = not count.is_Integer or int(count) > LONG_SUM
        return Accumulator(kind, "double" if type_ == "float" and is_long else type_, "0")
    return Accumulator(kind, type_, _worst(kind, type_))


def _make_scan_accumulator(kind: ScanKind, dtype: torch.dtype) -> ScanAccumulator:
    """Return how a scan accumulates: sums and products of float32 in double, as in eager."""
    type_ = compute_type(dtype)
    if kind in ("sum", "prod"):
        wide = "double" if dtype == torch.float32 else type_
        return ScanAccumulator(kind, wide, "0" if kind == "sum" else "1")
    return ScanAccumulator(kind, type_, _worst("max" if kind == "logsumexp" else kind, type_))


def _worst(kind: str, type_: str) -> str:
    """Return the value that every other replaces in a maximum or minimum."""
    is_max = kind in ("max", "argmax")
    if type_ in ("float", "double"):
        return f"{'-' if is_max else ''}({type_})__builtin_inf()"
    return _LIMITS[type_][0 if is_max else 1]
