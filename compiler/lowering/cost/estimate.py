"""Estimated cost of graphs: kernels, bytes, flops, peak memory and roofline time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fullgraph.compiler.lowering.cost.device import Device
from fullgraph.compiler.lowering.cost.kernels import Kernel, plan_kernels
from fullgraph.compiler.lowering.cost.trace import trace_operators
from fullgraph.compiler.operations import OperatorTrace


@dataclass(frozen=True)
class Cost:
    """Estimated cost of one run of one or more graphs: kernels, bytes, flops, memory, seconds."""

    kernels: int = 0
    """Number of generated kernels."""
    externs: int = 0
    """Number of extern kernels: calls of a library such as cuBLAS, one for each operator."""
    bytes_read: int = 0
    bytes_written: int = 0
    flops: int = 0
    peak_memory: int = 0
    """Largest number of live bytes, of intermediates and outputs; inputs do not count."""
    seconds: float = 0.0
    """Roofline time: for each kernel, its launch plus the longer of memory and compute time."""
    unknown: tuple[str, ...] = ()
    """Operators that the cost model has no rule for; each counts as one extern kernel."""

    @property
    def launches(self) -> int:
        """Number of generated and extern kernels."""
        return self.kernels + self.externs

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written


def graph_cost(module: torch.fx.GraphModule, device: Device, *, fuse: bool = True) -> Cost:
    """Return the estimated cost of one run of a graph on `device`.

    If `fuse` is False, each operator is one kernel, as in eager. The graph's nodes need example
    values in `meta`.
    """
    return trace_cost(trace_operators(module), device, fuse=fuse)


def trace_cost(trace: OperatorTrace, device: Device, *, fuse: bool = True) -> Cost:
    """Return the estimated cost of running the operators of a trace on `device`.

    If `fuse` is False, each operator is one kernel, as in eager.
    """
    kernels = plan_kernels(trace, fuse=fuse)
    size = {index: value.bytes for index, value in enumerate(trace.values)}
    read = [sum(count for _, count in kernel.reads) for kernel in kernels]
    written = [sum(size[value] for value in kernel.writes) for kernel in kernels]
    moved = [one + other for one, other in zip(read, written, strict=True)]
    externs = sum(kernel.is_extern for kernel in kernels)
    unknown = dict.fromkeys(one.name for one in trace.operations if not one.is_known)
    return Cost(
        len(kernels) - externs,
        externs,
        sum(read),
        sum(written),
        sum(kernel.flops for kernel in kernels),
        _peak_memory(trace, kernels),
        sum(device.seconds(m, k.flops, k.dtype) for m, k in zip(moved, kernels, strict=True)),
        tuple(unknown),
    )


def peak_memory(module: torch.fx.GraphModule) -> int:
    """Return the largest number of bytes of intermediates and outputs that are live at one time.

    Operators are fused, as in `graph_cost`; inputs do not count.
    """
    trace = trace_operators(module)
    return _peak_memory(trace, plan_kernels(trace))


def add_costs(costs: Sequence[Cost]) -> Cost:
    """Return the cost of running graphs one after the other: sums, but the largest peak memory."""
    return Cost(
        sum(cost.kernels for cost in costs),
        sum(cost.externs for cost in costs),
        sum(cost.bytes_read for cost in costs),
        sum(cost.bytes_written for cost in costs),
        sum(cost.flops for cost in costs),
        max((cost.peak_memory for cost in costs), default=0),
        sum(cost.seconds for cost in costs),
        tuple(dict.fromkeys(name for cost in costs for name in cost.unknown)),
    )


def _peak_memory(trace: OperatorTrace, kernels: Sequence[Kernel]) -> int:
    """Return the largest number of bytes that are live at one time.

    A value is live from the kernel that writes it to the last one that reads it.
    """
    last = {value: i for i, kernel in enumerate(kernels) for value, _ in kernel.reads}
    last.update(dict.fromkeys(trace.outputs, len(kernels)))
    inputs = set(trace.inputs)
    live = peak = 0
    for index, kernel in enumerate(kernels):
        live += sum(trace.values[value].bytes for value in kernel.writes)
        peak = max(peak, live)
        used = {*kernel.writes, *(value for value, _ in kernel.reads)} - inputs
        live -= sum(trace.values[v].bytes for v in used if last.get(v, index) == index)
    return peak
