"""Estimated cost of graphs, and what joining two of them would save, as without the break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from fullgraph.compiler.lowering.cost.device import Device
from fullgraph.compiler.lowering.cost.kernels import Kernel, plan_kernels
from fullgraph.compiler.lowering.cost.trace import trace_operators
from fullgraph.compiler.operations import Operation, OperatorTrace, Read, Saving


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


def estimate_saving(first: OperatorTrace, second: OperatorTrace, device: Device) -> Saving:
    """Return the costs of `first` and `second` minus the cost of one graph that computes both."""
    apart = [trace_cost(first, device), trace_cost(second, device)]
    joined = trace_cost(join_traces(first, second), device)
    return Saving(
        device.label,
        sum(cost.launches for cost in apart) - joined.launches,
        sum(cost.bytes for cost in apart) - joined.bytes,
        sum(cost.seconds for cost in apart) - joined.seconds,
    )


def add_savings(savings: Sequence[Saving]) -> Saving:
    """Return the sum of the savings of several joins on one device."""
    return Saving(
        savings[0].device,
        sum(saving.launches for saving in savings),
        sum(saving.bytes for saving in savings),
        sum(saving.seconds for saving in savings),
    )


def join_traces(first: OperatorTrace, second: OperatorTrace) -> OperatorTrace:
    """Return the trace of one graph that computes `first`, then `second`.

    Each input of `second`, except parameters, is matched with the first unmatched output of `first`
    that has the same device, dtype, sizes and strides. The joined graph does not return matched
    outputs: the cost model assumes that only `second` reads them.
    """
    matches = dict(_match(first, second))
    shift = len(first.values)
    index = {value: matches.get(value, value + shift) for value in range(len(second.values))}
    passed = set(matches.values())
    outputs = [value for value in first.outputs if value not in passed]
    return OperatorTrace(
        first.values + second.values,
        (*first.inputs, *(index[v] for v in second.inputs if v not in matches)),
        tuple(dict.fromkeys([*outputs, *(index[value] for value in second.outputs)])),
        (*first.operations, *(_renumber(one, index) for one in second.operations)),
    )


def _match(first: OperatorTrace, second: OperatorTrace) -> Iterator[tuple[int, int]]:
    """Yield (input of `second`, output of `first`) for each input that matches an output."""
    free = list(first.outputs)
    for value in second.inputs:
        wanted = second.values[value]
        if wanted.is_parameter:
            continue
        same = (out for out in free if first.values[out].signature == wanted.signature)
        output = next(same, None)
        if output is not None:
            free.remove(output)
            yield value, output


def _renumber(operation: Operation, index: dict[int, int]) -> Operation:
    """Return a copy of `operation` in which `index[v]` replaces the index `v` of each value."""
    reads = tuple(Read(index[read.value], read.bytes) for read in operation.reads)
    return replace(operation, reads=reads, writes=tuple(index[v] for v in operation.writes))
