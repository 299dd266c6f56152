"""Reductions and scans in C++: how a value is accumulated."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fullgraph.compiler.lowering.codegen import worst_value
from fullgraph.compiler.lowering.cpp.scalars import compute_type, number_text
from fullgraph.compiler.lowering.ir import Loop, product

CHUNK, ROWS = 512, 32
"""Elements of a long sum that are added up apart, and rows if memory runs along the columns."""
_FOLDS = {"sum": ("0", "+"), "prod": ("1", "*"), "any": ("0", "|")}
"""First value, and operator."""


@dataclass(frozen=True)
class Accumulator:
    """C++ text of one reduction or scan: the type, the first value, one step, and the result.

    argmax and argmin keep a position. A maximum of floating-point numbers notes apart whether there
    was a NaN. A scan runs in order, and its result after each step is one element. A long sum adds
    up chunks in the type of its elements, and the chunks in float64: as in eager, an error does not
    grow with the number of elements.
    """

    kind: str
    type: str
    initial: str
    is_scan: bool
    chunk_type: str = ""
    """Type of the sum of a chunk; "" if there are no chunks."""

    @property
    def _keeps_position(self) -> bool:
        return self.kind in ("argmax", "argmin")

    @property
    def _notes_nan(self) -> bool:
        is_extreme = self.kind in ("max", "min") and not self.is_scan
        return is_extreme and self.type in ("float", "double")

    @property
    def is_ordered(self) -> bool:
        """Whether the loop must run in order."""
        return self.is_scan or self._keeps_position

    def parts(self, name: str) -> list[tuple[str, str, str]]:
        """Return type, name and first value of each variable."""
        found = [(self.type, name, self.initial)]
        if self._notes_nan:
            found.append(("int32_t", f"{name}_nan", "0"))
        if self._keeps_position:
            found.append(("int64_t", f"{name}_at", "0"))
        return found

    def clauses(self, name: str, *, of_chunk: bool = False) -> str:
        """Return OpenMP's `reduction` clauses of a loop that need not run in order."""
        name = self._step_name(name) if of_chunk else name
        operator = _FOLDS[self.kind][1] if self.kind in _FOLDS else self.kind
        nan = f" reduction(|:{name}_nan)" if self._notes_nan else ""
        return f" reduction({operator}:{name}){nan}"

    def _step_name(self, name: str) -> str:
        """Return the variable that a step changes."""
        return f"{name}_chunk" if self.chunk_type else name

    def begin_chunk(self, name: str, lanes: int) -> list[str]:
        """Return the statements before a chunk of one sum, or of a sum for each lane."""
        if not self.chunk_type:
            return []
        loop, lane, array = _lane_texts(lanes)
        return [f"{self.chunk_type} {name}_chunk{array};", f"{loop}{name}_chunk{lane} = 0;"]

    def end_chunk(self, name: str, lanes: int) -> list[str]:
        """Return the statement that adds a chunk."""
        loop, lane, _ = _lane_texts(lanes)
        return [f"{loop}{name}{lane} += {name}_chunk{lane};"] if self.chunk_type else []

    def step(self, name: str, lane: str, value: str, position: str) -> str:
        """Return the statement that accumulates a value; `position` is its place.

        Of equal extremes, a scan takes the position of the last.
        """
        one = f"{self._step_name(name)}{lane}"
        if self.kind in _FOLDS:
            return f"{one} {_FOLDS[self.kind][1]}= {value};"
        if self.kind == "logsumexp":
            return f"{one} = special::log_add_exp({value}, {one});"
        sign = (">" if self.kind in ("max", "argmax") else "<") + "=" * self.is_scan
        if not self.is_ordered:
            nan = f" {name}_nan{lane} |= {value} != {value};" if self._notes_nan else ""
            return f"{one} = {value} {sign} {one} ? {value} : {one};{nan}"
        is_nan = f"{value} != {value}" + ("" if self.is_scan else f" && {one} == {one}")
        place = f" {name}_at{lane} = {position};" if self._keeps_position else ""
        return f"if ({value} {sign} {one} || ({is_nan})) {{ {one} = {value};{place} }}"

    def result(self, name: str, lane: str) -> str:
        """Return the result after the last step, or of a scan, the element after each."""
        if self._keeps_position:
            return f"{name}_at{lane}"
        if self._notes_nan:
            return f'({name}_nan{lane} ? ({self.type})__builtin_nan("") : {name}{lane})'
        return f"{name}{lane}"


def _lane_texts(lanes: int) -> tuple[str, str, str]:
    """Return the head of a loop over lanes, a lane's index, and the size of an array of them."""
    if not lanes:
        return "", "", ""
    return f"for (int64_t i = 0; i < {lanes}; ++i) ", "[i]", f"[{lanes}]"


def make_accumulator(loop: Loop, chunk: int) -> Accumulator:
    """Return how a loop's reduction or scan accumulates, with chunks of some elements.

    Scans of float32 accumulate in float64, as in eager.
    """
    kind, dtype = loop.accumulation, loop.body.dtype
    type_ = element_type = "int32_t" if kind == "any" else compute_type(dtype)
    count = product(loop.reduced)
    is_long = not loop.scan and (not count.is_Integer or int(count) > chunk)
    has_chunks = kind == "sum" and dtype.is_floating_point and is_long
    if has_chunks or (loop.scan and kind in ("sum", "prod") and dtype == torch.float32):
        type_ = "double"
    known = _FOLDS.get(kind)
    initial = known[0] if known else number_text(worst_value(kind, dtype), dtype)
    is_scan, chunk_type = loop.scan is not None, element_type if has_chunks else ""
    return Accumulator(kind, type_, initial, is_scan, chunk_type)
