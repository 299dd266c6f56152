"""Reductions and scans in Triton: how a tile of values is accumulated."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fullgraph.compiler.lowering.codegen import worst_value
from fullgraph.compiler.lowering.triton.scalars import compute_type, literal

_FOLDS = {
    "sum": ("0", "+", "tl.sum({0}, 1)[:, None]"),
    "prod": ("1", "*", "tl.reduce({0}, 1, device.multiply)[:, None]"),
    "any": ("0", "|", "tl.max({0}, 1)[:, None] != 0"),
}
"""First value, operator, and the result of a tile."""
_SCANS = {"sum": "tl.cumsum({0}, 1)", "prod": "tl.cumprod({0}, 1)"}
"""Elements of a tile, of the scans that run by tiles."""


@dataclass(frozen=True)
class Accumulator:
    """Triton text of one reduction or scan: what is declared before the loop, steps, the result.

    argmax and argmin keep a position. A reduction accumulates a tile, a scan a column.
    """

    kind: str
    dtype: torch.dtype
    is_scan: bool

    @property
    def is_serial(self) -> bool:
        """Whether a tile has one column."""
        return self.is_scan and self.kind not in _SCANS

    @property
    def _keeps_position(self) -> bool:
        return self.kind in ("argmax", "argmin")

    @property
    def _initial(self) -> str:
        """First value of each element."""
        known = _FOLDS.get(self.kind)
        return known[0] if known else literal(worst_value(self.kind, self.dtype))

    def declare(self, name: str) -> list[str]:
        """Return the statements before the loop."""
        shape = "[XBLOCK, 1]" if self.is_scan else "[XBLOCK, RBLOCK]"
        type_ = "tl.int32" if self.kind == "any" else compute_type(self.dtype)
        lines = [f"{name} = tl.full({shape}, {self._initial}, {type_})"]
        if self._keeps_position:
            lanes = "" if self.is_scan else " + lanes"
            lines.append(f"{name}_at = tl.full({shape}, 0, tl.int64){lanes}")
        return lines

    def step(self, name: str, value: str, position: str) -> list[str]:
        """Return the statements that accumulate a tile; `position` is where each element is.

        Of equal extremes, a scan takes the position of the last.
        """
        if self.is_scan and self.kind in _SCANS:
            return self._scan_tile(name, value)
        if self.kind in _FOLDS:
            value = f"{value}.to(tl.int32)" if self.kind == "any" else value
            sign = _FOLDS[self.kind][1]
            return [f"{name} = tl.where(in_x & in_r, {name} {sign} {value}, {name})"]
        if self.kind == "logsumexp":
            return [f"{name} = device.log_add_exp({value}, {name})"]
        sign = (">" if self.kind in ("max", "argmax") else "<") + "=" * self.is_scan
        better = f"({value} {sign} {name})"
        if self.dtype.is_floating_point:
            first = f" & ({name} == {name})" if self._keeps_position and not self.is_scan else ""
            better = f"({better} | (({value} != {value}){first}))"
        lines = [f"{name}_new = in_x & in_r & {better}"]
        if self._keeps_position:
            lines.append(f"{name}_at = tl.where({name}_new, {position}, {name}_at)")
        return [*lines, f"{name} = tl.where({name}_new, {value}, {name})"]

    def _scan_tile(self, name: str, value: str) -> list[str]:
        """Return the statements that scan a tile; `name` is what was accumulated before it."""
        first, sign, total = _FOLDS[self.kind]
        type_, part = compute_type(self.dtype), f"{name}_part"
        return [
            f"{part} = tl.where(in_x & in_r, {value}, {first})",
            f"{name}_all = ({_SCANS[self.kind].format(part)} {sign} {name}).to({type_})",
            f"{name} = ({name} {sign} {total.format(part)}).to({type_})",
        ]

    def element(self, name: str) -> str:
        """Return the variable of a scan's elements after a step."""
        return f"{name}_at" if self._keeps_position else name if self.is_serial else f"{name}_all"

    def result(self, name: str) -> list[str]:
        """Return the statements that leave a reduction's result, a column, in `name`."""
        if self.kind in _FOLDS:
            return [f"{name} = {_FOLDS[self.kind][2].format(name)}"]
        function = "max" if self.kind in ("max", "argmax") else "min"
        lines, best = [], name
        if self.dtype.is_floating_point:
            lines += [
                f"{name}_nan = {name} != {name}",
                f"{name}_any = tl.max({name}_nan.to(tl.int32), 1)[:, None] != 0",
            ]
            best = f"tl.where({name}_nan, {self._initial}, {name})"
        lines.append(f"{name}_best = tl.{function}({best}, 1)[:, None]")
        if self._keeps_position:
            chosen = f"{name} == {name}_best"
            if self.dtype.is_floating_point:
                chosen = f"tl.where({name}_any, {name}_nan, {chosen})"
            last = torch.iinfo(torch.int64).max
            return [*lines, f"{name} = tl.min(tl.where({chosen}, {name}_at, {last}), 1)[:, None]"]
        if self.dtype.is_floating_point:
            return [*lines, f'{name} = tl.where({name}_any, float("nan"), {name}_best)']
        return [*lines, f"{name} = {name}_best"]
