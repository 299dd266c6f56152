"""Operator trace of a captured graph, and the estimated saving of joining two graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["pointwise", "reduction", "scatter", "extern"]
"""How a fusing compiler treats an operator; "extern" is a call of a library such as cuBLAS."""
Space = tuple[tuple[int, bool], ...]
"""Iteration space: (size, whether it is reduced) for each dim in order.

Adjacent dims that are both reduced, or both not, are merged into one."""


@dataclass(frozen=True)
class Value:
    """Content of a tensor's memory: its size in bytes and metadata.

    An in-place update makes a new value.
    """

    bytes: int
    signature: str
    """Device, dtype, sizes and strides: "cpu f32[2, 3] (3, 1)"."""
    is_parameter: bool = False


@dataclass(frozen=True)
class Read:
    """Read of one operand by an operator: the index of the value, and the number of bytes."""

    value: int
    """Index of the value in `OperatorTrace.values`."""
    bytes: int
    """Bytes of the distinct elements that the operand covers."""


@dataclass(frozen=True)
class Operation:
    """One call of an operator, such as "aten.add.Tensor": what it reads and writes, its flops, …"""

    name: str
    """"aten.add.Tensor"."""
    kind: Kind
    reads: tuple[Read, ...]
    writes: tuple[int, ...]
    """Indices of the values that the operator produces, in `OperatorTrace.values`."""
    space: Space
    flops: int
    dtype: str
    """The dtype of the result without "torch.": "float32"."""
    is_stored: bool = False
    """Whether the result must be written to memory, so the operator is never inlined."""
    is_known: bool = True
    """Whether the cost model has a rule for the operator."""


@dataclass(frozen=True)
class OperatorTrace:
    """Operators of one graph in the order of execution."""

    values: tuple[Value, ...] = ()
    inputs: tuple[int, ...] = ()
    """Indices of the values that exist before the graph runs, in order of placeholder or use."""
    outputs: tuple[int, ...] = ()
    """Indices of the values that the graph leaves: its results, and inputs as it changed them."""
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True)
class Saving:
    """Launches, bytes of memory traffic and roofline time that one run is estimated to save."""

    device: str
    """The label of the device: "this CPU"."""
    launches: int
    bytes: int
    seconds: float
