"""Scans in Triton: a tile of sums or products at a time, or one element after the other."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fullgraph.compiler.lowering.ir import ScanKind
from fullgraph.compiler.lowering.triton.reductions import worst_value
from fullgraph.compiler.lowering.triton.scalars import compute_type

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
