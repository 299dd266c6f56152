"""Estimated saving of joining two graphs that run one after the other, as without the break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fullgraph.compiler.lowering.cost.device import Device
from fullgraph.compiler.lowering.cost.estimate import trace_cost
from fullgraph.compiler.operations import Operation, OperatorTrace, Read, Saving


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
