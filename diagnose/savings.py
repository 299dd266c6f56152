"""What joining the graphs on both sides of a break would save, estimated per cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from fullgraph.compiler.events import Graph
from fullgraph.compiler.lowering.cost import Device, add_savings, estimate_saving
from fullgraph.compiler.operations import Saving
from fullgraph.diagnose.explanation_data import Cause


def add_estimates(
    causes: Iterable[Cause], graphs: tuple[Graph, ...], device: Device
) -> tuple[Cause, ...]:
    """Return `causes`, each with what joining the graphs that it separates would save.

    `graphs` are those of the first call. A cause without operators on both sides has no estimate.
    """
    return tuple(replace(c, saving=_estimate_cause(c, graphs, device)) for c in causes)


def _estimate_cause(cause: Cause, graphs: tuple[Graph, ...], device: Device) -> Saving | None:
    savings = [
        estimate_saving(one.operators, other.operators, device)
        for one, other in _separated(cause, graphs)
        if one.operators is not None and other.operators is not None
    ]
    return add_savings(savings) if savings else None


def _separated(cause: Cause, graphs: tuple[Graph, ...]) -> Iterator[tuple[Graph, Graph]]:
    """Yield each graph that ended at the cause, with the graph after it."""
    for index, (one, other) in enumerate(pairwise(graphs), 1):
        if f"G{index}" in cause.graphs and one.phase == other.phase:
            yield one, other
