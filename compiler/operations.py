"""Operators of a captured graph, and what joining two graphs saves, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["pointwise", "reduction", "scatter", "extern"]
"""How a fusing compiler treats an operator: an extern operator is one call of a library."""
Space = tuple[tuple[int, bool], ...]
"""Iteration space: sizes in order, each with whether it is reduced. Neighbours are merged."""


@dataclass(frozen=True)
class Value:
    """One version of a tensor's memory."""

    bytes: int
    signature: str
    """Device, dtype, sizes and strides: "cpu f32[2, 3] (3, 1)"."""
    is_parameter: bool = False


@dataclass(frozen=True)
class Read:
    """Operand of an operator."""

    value: int
    """Index of the value in its trace."""
    bytes: int
    """Bytes of the distinct elements that the operand covers."""


@dataclass(frozen=True)
class Operation:
    """One call of an operator."""

    name: str
    """"aten.add.Tensor"."""
    kind: Kind
    reads: tuple[Read, ...]
    writes: tuple[int, ...]
    """Indices of the values that it produces."""
    space: Space
    flops: int
    dtype: str
    """The dtype of the result without "torch.": "float32"."""
    is_stored: bool = False
    """Whether the result is written to memory even if one operator alone reads it."""
    is_known: bool = True
    """Whether the cost model has a rule for the operator."""


@dataclass(frozen=True)
class OperatorTrace:
    """Operators of one graph in the order of execution."""

    values: tuple[Value, ...] = ()
    inputs: tuple[int, ...] = ()
    """Values that exist before the graph runs, in the order of their first use or placeholder."""
    outputs: tuple[int, ...] = ()
    """Values that exist after it: results, and inputs that it writes."""
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True)
class Saving:
    """Estimated saving of one run: launches and bytes that go, and their roofline time."""

    device: str
    """The label of the device: "this CPU"."""
    launches: int
    bytes: int
    seconds: float
