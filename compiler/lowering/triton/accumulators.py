"""Reductions and scans in Triton: how a tile of values is accumulated."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fullgraph.compiler.lowering.ir import ScanKind
from fullgraph.compiler.lowering.triton.scalars import compute_type

_FOLDS = {
    "sum": ("0", "+", "tl.sum({0}, 1)[:, None]"),
    "prod": ("1", "*", "tl.reduce({0}, 1, device.multiply)[:, None]"),
    "any": ("0", "|", "tl.max({0}, 1)[:, None] != 0"),
}
"""First value, operator, and the result of a tile."""
_SIGNS = {"max": ">", "argmax": ">", "min": "<", "argmin": "<"}
_TILED: dict[str, tuple[str, str, str]] = {
    "sum": ("0", "tl.cumsum({value}, 1) + carry", "carry + tl.sum({value}, 1)[:, None]"),
    "prod": (
        "1",
        "tl.cumprod({value}, 1) * carry",
        "carry * tl.reduce({value}, 1, device.multiply)[:, None]",
    ),
}
"""Of scans that run by tiles: the first value, the elements of a tile, and the value after it."""


@dataclass(frozen=True)
class Accumulator:
    """Triton text of one reduction: a tile before the loop, one step, and the result."""

    kind: str
    dtype: torch.dtype

    @property
    def _keeps_position(self) -> bool:
        return self.kind in ("argmax", "argmin")

    @property
    def _type(self) -> str:
        return "tl.int32" if self.kind == "any" else compute_type(self.dtype)

    @property
    def _initial(self) -> str:
        """First value of each element."""
        if self.kind in _FOLDS:
            return _FOLDS[self.kind][0]
        return worst_value(self.kind, self.dtype)

    def declare(self, name: str) -> list[str]:
        """Return the statements before the loop."""
        lines = [f"{name} = tl.full([XBLOCK, RBLOCK], {self._initial}, {self._type})"]
        if self._keeps_position:
            lines.append(f"{name}_at = tl.full([XBLOCK, RBLOCK], 0, tl.int64) + lanes")
        return lines

    def step(self, name: str, value: str, position: str) -> list[str]:
        """Return the statements that accumulate a tile; `position` is where each element is."""
        inside = "in_x & in_r"
        if self.kind in _FOLDS:
            value = f"{value}.to(tl.int32)" if self.kind == "any" else value
            sign = _FOLDS[self.kind][1]
            return [f"{name} = tl.where({inside}, {name} {sign} {value}, {name})"]
        better = f"({value} {_SIGNS[self.kind]} {name})"
        if self.dtype.is_floating_point:
            first = f" & ({name} == {name})" if self._keeps_position else ""
            better = f"({better} | (({value} != {value}){first}))"
        lines = [f"{name}_new = {inside} & {better}"]
        if self._keeps_position:
            lines.append(f"{name}_at = tl.where({name}_new, {position}, {name}_at)")
        return [*lines, f"{name} = tl.where({name}_new, {value}, {name})"]

    def result(self, name: str) -> list[str]:
        """Return the statements that leave the result, a column, in the variable `name`."""
        if self.kind in _FOLDS:
            return [f"{name} = {_FOLDS[self.kind][2].format(name)}"]
        function = "max" if _SIGNS[self.kind] == ">" else "min"
        lines = []
        best = name
        if self.dtype.is_floating_point:
            lines += [
                f"{name}_nan = {name} != {name}",
                f"{name}_any = tl.max({name}_nan.to(tl.int32), 1)[:, None] != 0",
            ]
            best = f"tl.where({name}_nan, {self._initial}, {name})"
        lines.append(f"{name}_best = tl.{function}({best}, 1)[:, None]")
        if not self._keeps_position:
            if self.dtype.is_floating_point:
                return [*lines, f'{name} = tl.where({name}_any, float("nan"), {name}_best)']
            return [*lines, f"{name} = {name}_best"]
        chosen = f"{name} == {name}_best"
        if self.dtype.is_floating_point:
            chosen = f"tl.where({name}_any, {name}_nan, {chosen})"
        last = torch.iinfo(torch.int64).max
        return [*lines, f"{name} = tl.min(tl.where({chosen}, {name}_at, {last}), 1)[:, None]"]


def worst_value(kind: str, dtype: torch.dtype) -> str:
    """Return the value that every other replaces in a maximum or minimum."""
    is_max = _SIGNS[kind] == ">"
    if dtype.is_floating_point:
        return f'float("{"-" if is_max else ""}inf")'
    if dtype == torch.bool:
        return str(not is_max)
    limits = torch.iinfo(dtype)
    return str(limits.min if is_max else limits.max)


@dataclass(frozen=True)
class Scanner:
    """Triton text of one scan. `carry` is a column: what each row has accumulated so far."""

    kind: ScanKind
    dtype: torch.dtype

    @property
    def is_serial(self) -> bool:
        """Whether a tile has one column."""
        return self.kind not in _TILED

    @property
    def _keeps_place(self) -> bool:
        return self.kind in ("argmax", "argmin")

    def declare(self) -> list[str]:
        """Return the statements before the loop."""
        if not self.is_serial:
            first = _TILED[self.kind][0]
        else:
            first = worst_value("max" if self.kind == "logsumexp" else self.kind, self.dtype)
        lines = [f"carry = tl.full([XBLOCK, 1], {first}, {compute_type(self.dtype)})"]
        if self._keeps_place:
            lines.append("place = tl.full([XBLOCK, 1], 0, tl.int64)")
        return lines

    def step(self, value: str, position: str) -> list[str]:
        """Return the statements for a tile, which leave its elements in `scanned`."""
        if not self.is_serial:
            first, elements, after = _TILED[self.kind]
            type_ = compute_type(self.dtype)
            return [
                f"part = tl.where(in_x & in_r, {value}, {first})",
                f"scanned = ({elements.format(value='part')}).to({type_})",
                f"carry = ({after.format(value='part')}).to({type_})",
            ]
        if self.kind == "logsumexp":
            return [f"carry = device.log_add_exp({value}, carry)", "scanned = carry"]
        sign = ">=" if self.kind in ("max", "argmax") else "<="
        lines = [
            f"newer = ({value} {sign} carry) | ({value} != {value})",
            f"carry = tl.where(newer, {value}, carry)",
        ]
        if self._keeps_place:
            return [*lines, f"place = tl.where(newer, {position}, place)", "scanned = place"]
        return [*lines, "scanned = carry"]
